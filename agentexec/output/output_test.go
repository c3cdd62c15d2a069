package output_test

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"pushd/agentexec/output"
)

func capture(o output.Options, chunks ...string) (*output.Capture, []string) {
	var lines []string
	o.Line = func(line []byte, cut bool) {
		text := string(line)
		if cut {
			text = "CUT " + text[:min(len(text), 8)]
		}
		lines = append(lines, text)
	}
	c := output.NewCapture(o)
	for _, chunk := range chunks {
		_, _ = c.Stdout.Write([]byte(chunk))
	}
	c.Close()
	return c, lines
}

func TestLinesWhateverTheirEncoding(t *testing.T) {
	for name, c := range map[string]struct {
		in   string
		want []string
	}{
		"plain":                     {"a\nb\n", []string{"a", "b"}},
		"no newline at the end":     {"a\nb", []string{"a", "b"}},
		"CRLF":                      {"a\r\nb\r\n", []string{"a", "b"}},
		"a mark":                    {"\ufeffa\nb", []string{"a", "b"}},
		"UTF-16 by its mark":        {"\xff\xfea\x00\n\x00\xe9\x00\n\x00", []string{"a", "é"}},
		"big endian":                {"\xfe\xff\x00a\x00\n\x00b", []string{"a", "b"}},
		"UTF-16 by its NULs":        {"a\x00b\x00c\x00\n\x00", []string{"abc"}},
		"a pair":                    {"\xff\xfea\x00\x3d\xd8\x00\xde", []string{"a😀"}},
		"a pair's half":             {"\xff\xfea\x00\x3d\xd8", []string{"a\ufffd"}},
		"few bytes":                 {"a", []string{"a"}},
		"nothing":                   {"", nil},
		"empty lines":               {"\n\na\n", []string{"", "", "a"}},
		"cp1252 is left to display": {"acc\xe8s\n", []string{"acc\xe8s"}},
	} {
		t.Run(name, func(t *testing.T) {
			_, got := capture(output.Options{}, c.in)
			require.Equal(t, c.want, got)
			_, got = capture(output.Options{}, strings.Split(c.in, "")...)
			require.Equal(t, c.want, got, "byte by byte")
		})
	}
}

func TestAFileWhateverItsEncoding(t *testing.T) {
	for in, want := range map[string]string{
		"tok\n":                   "tok\n",
		"\ufefftok\r\n":           "tok\r\n",
		"\xff\xfet\x00o\x00k\x00": "tok",
		"":                        "",
		"x":                       "x",
	} {
		require.Equal(t, want, string(output.UTF8([]byte(in))))
	}
}

func TestTextForAPerson(t *testing.T) {
	for in, want := range map[string]string{
		"acc\xe8s refus\xe9 \x96 10 \x80\n": "accès refusé – 10 €\n",
		"é\ncaf\xe9\n":                      "é\ncafé\n",
		"a\x00b\x07":                        "a␀b␇",
	} {
		got, _ := output.Text([]byte(in))
		require.Equal(t, want, got)
	}
	_, odd := output.Text([]byte("caf\xe9"))
	require.True(t, odd)
	_, odd = output.Text([]byte("café"))
	require.False(t, odd)
}

func TestSecretsAreHiddenWhereverTheyAreCut(t *testing.T) {
	const secret = "tok_abcdefgh"
	text := "x=" + secret + secret + "; tok_abc\nend tok_abcdefg"
	want := "x=[masked][masked]; tok_abc\nend tok_abcdefg"
	for cut := range len(text) {
		dir := t.TempDir()
		c, lines := capture(output.Options{Secrets: []string{secret, ""}, Dir: dir, Keep: 1000}, text[:cut], text[cut:])
		require.Equal(t, want, strings.Join(lines, "\n"))
		require.Equal(t, want, string(c.Tail()))
		head, whole := c.Stdout.Head()
		require.True(t, whole)
		require.Equal(t, want, string(head))
		raw, err := os.ReadFile(filepath.Join(dir, "stdout.log.000"))
		require.NoError(t, err)
		require.Equal(t, want, string(raw))
	}
}

func TestALongLineIsCutAndTheNextOneComes(t *testing.T) {
	if testing.Short() {
		t.Skip("100 MiB")
	}
	var lines []string
	c := output.NewCapture(output.Options{Line: func(line []byte, cut bool) {
		if cut {
			line = []byte("cut")
		}
		lines = append(lines, string(line))
	}})
	chunk := bytes.Repeat([]byte("y"), 32<<10)
	for range 100 << 20 / len(chunk) {
		_, _ = c.Stdout.Write(chunk)
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	require.Less(t, m.HeapAlloc, uint64(48<<20))
	_, _ = c.Stdout.Write([]byte("\nlast\n"))
	c.Close()
	require.Equal(t, []string{"cut", "last"}, lines)
	tail, total := c.Stdout.Tail()
	require.Equal(t, "last\n", string(tail[len(tail)-5:]))
	require.EqualValues(t, 100<<20+6, total)
}

func TestARunLogKeepsItsBeginningAndItsEnd(t *testing.T) {
	dir := t.TempDir()
	c := output.NewCapture(output.Options{Dir: dir})
	_, _ = c.Stdout.Write([]byte("first"))
	chunk := bytes.Repeat([]byte("z"), 1<<20)
	for range 100 {
		_, _ = c.Stdout.Write(chunk)
	}
	_, _ = c.Stdout.Write([]byte("last"))
	c.Close()
	require.NoError(t, c.Stdout.LogError())
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	var total int64
	for _, e := range entries {
		info, err := e.Info()
		require.NoError(t, err)
		total += info.Size()
	}
	require.LessOrEqual(t, total, int64(64<<20+100))
	first, err := os.ReadFile(filepath.Join(dir, "stdout.log.000"))
	require.NoError(t, err)
	require.True(t, bytes.HasPrefix(first, []byte("first")))
	require.Contains(t, string(first[len(first)-60:]), "left out here")
	last, err := os.ReadFile(filepath.Join(dir, entries[len(entries)-1].Name()))
	require.NoError(t, err)
	require.True(t, bytes.HasSuffix(last, []byte("last")))
}

func TestFixturesInOddEncodings(t *testing.T) {
	raw, err := os.ReadFile("../../policy/testdata/agent_runs.json")
	require.NoError(t, err)
	var runs []struct {
		Name string
		B64  string `json:"stdout_b64"`
	}
	require.NoError(t, json.Unmarshal(raw, &runs))
	for _, r := range runs {
		if r.B64 == "" {
			continue
		}
		bytes, err := base64.StdEncoding.DecodeString(r.B64)
		require.NoError(t, err)
		c, _ := capture(output.Options{}, string(bytes))
		text, _ := output.Text(c.Tail())
		require.True(t, utf8.ValidString(text), r.Name)
		if strings.HasPrefix(r.Name, "garbage_") && r.Name != "garbage_binary" {
			require.Contains(t, text, "accès refusé", r.Name)
		}
	}
}

// However the bytes are cut, the lines are the same and the text is valid.
func FuzzCapture(f *testing.F) {
	f.Add([]byte("\xff\xfea\x00\n\x00"), uint8(1))
	f.Add([]byte("tok_abcdefgh\r\n"), uint8(3))
	f.Fuzz(func(t *testing.T, in []byte, size uint8) {
		o := output.Options{Secrets: []string{"tok_abcdefgh"}}
		_, whole := capture(o, string(in))
		var chunks []string
		for rest := in; len(rest) > 0; {
			n := min(int(size)+1, len(rest))
			chunks = append(chunks, string(rest[:n]))
			rest = rest[n:]
		}
		c, cut := capture(o, chunks...)
		require.Equal(t, whole, cut)
		text, _ := output.Text(c.Tail())
		require.True(t, utf8.ValidString(text))
		require.NotContains(t, text, "tok_abcdefgh")
	})
}
