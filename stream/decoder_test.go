package stream_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"pushd/stream"
)

type vector struct {
	Name, Input string
	Events      []vectorEvent
	LastID      string `json:"last_id"`
	RetryMS     *int64 `json:"retry_ms"`
	CutOff      bool   `json:"cut_off"`
}

type vectorEvent struct{ Type, Data, ID string }

func vectors(t testing.TB) []vector {
	t.Helper()
	text, err := os.ReadFile("testdata/whatwg.json")
	require.NoError(t, err)
	var all []vector
	require.NoError(t, json.Unmarshal(text, &all))
	require.NotEmpty(t, all)
	return all
}

func TestDecoderReadsTheStandardsVectors(t *testing.T) {
	for _, v := range vectors(t) {
		t.Run(v.Name, func(t *testing.T) {
			v.require(t, strings.NewReader(v.Input), "whole")
			v.require(t, &pieces{data: []byte(v.Input), size: 1}, "byte by byte")
			v.require(t, &pieces{data: []byte(v.Input), size: len(v.Input) + 1, eof: true}, "with the end in the last read")
			for i := range v.Input {
				v.require(t, io.MultiReader(strings.NewReader(v.Input[:i]), strings.NewReader(v.Input[i:])), "split")
			}
		})
	}
}

func (v vector) require(t *testing.T, r io.Reader, how string) {
	t.Helper()
	got, d, err := readAll(r)
	if v.CutOff {
		require.Equal(t, io.ErrUnexpectedEOF, err, how)
	} else {
		require.Equal(t, io.EOF, err, how)
	}
	require.Equal(t, v.Events, got, how)
	require.Equal(t, v.LastID, d.LastEventID(), how)
	retry, told := d.Retry()
	require.Equal(t, v.RetryMS != nil, told, how)
	if told {
		require.Equal(t, time.Duration(*v.RetryMS)*time.Millisecond, retry, how)
	}
}

func readAll(r io.Reader) ([]vectorEvent, *stream.Decoder, error) {
	d := stream.NewDecoder(r)
	got := []vectorEvent{}
	for {
		e, err := d.Next()
		if err != nil {
			return got, d, err
		}
		if e.Name == "" {
			e.Name = "message"
		}
		got = append(got, vectorEvent{e.Name, string(e.Data), e.ID})
	}
}

func TestDecoderHandsOverAnEventWithoutReadingOn(t *testing.T) {
	for _, input := range []string{"data:x\n\n", "data:x\r\r", "data:x\r\n\r", "data:x\n\r"} {
		d := stream.NewDecoder(io.MultiReader(strings.NewReader(input), mustNotRead{t}))
		e, err := d.Next()
		require.NoError(t, err)
		require.Equal(t, "x", string(e.Data), "%q", input)
	}
}

func TestDecoderBoundsWhatAnEventMayTake(t *testing.T) {
	const limit = 1000
	for name, c := range map[string]struct {
		input string
		fits  bool
	}{
		"one line below the limit":   {"data:" + strings.Repeat("x", limit-6) + "\n\n", true},
		"one line above it":          {"data:" + strings.Repeat("x", limit) + "\n\n", false},
		"a line that never ends":     {strings.Repeat("x", 100_000), false},
		"many lines above it":        {strings.Repeat("data:0123456789\n", 100) + "\n", false},
		"many events, each below it": {strings.Repeat("data:"+strings.Repeat("x", 500)+"\n\n", 100), true},
		"comments are free":          {":" + strings.Repeat("x", 100_000) + "\ndata:x\n\n", true},
	} {
		t.Run(name, func(t *testing.T) {
			for _, size := range []int{1, 7, 1 << 20} {
				d := stream.NewDecoder(&pieces{data: []byte(c.input), size: size})
				d.Limit(limit)
				_, err := d.Next()
				if c.fits {
					require.NoError(t, err)
					continue
				}
				require.ErrorIs(t, err, stream.ErrEventTooLarge)
				_, err = d.Next()
				require.ErrorIs(t, err, stream.ErrEventTooLarge, "it stays so")
			}
		})
	}
}

func TestDecoderPassesOnTheReadersError(t *testing.T) {
	broken := errors.New("broken")
	d := stream.NewDecoder(io.MultiReader(strings.NewReader("data:a\n\ndata:b\n"), failing{broken}))
	_, err := d.Next()
	require.NoError(t, err)
	_, err = d.Next()
	require.Equal(t, broken, err)
}

func TestDecoderGivesEachEventItsOwnData(t *testing.T) {
	d := stream.NewDecoder(strings.NewReader("data:one\n\ndata:two\n\n"))
	one, err := d.Next()
	require.NoError(t, err)
	_, err = d.Next()
	require.NoError(t, err)
	require.Equal(t, "one", string(one.Data))
}

// However the bytes of a stream are cut, the events are the same; and what was
// read can be written, and read again.
func FuzzEventDecode(f *testing.F) {
	for _, v := range vectors(f) {
		f.Add([]byte(v.Input), uint8(3))
	}
	f.Fuzz(func(t *testing.T, input []byte, size uint8) {
		whole, _, wholeErr := readAll(bytes.NewReader(input))
		cut, d, cutErr := readAll(&pieces{data: input, size: int(size) + 1})
		require.Equal(t, whole, cut)
		require.Equal(t, wholeErr, cutErr)
		require.NotContains(t, d.LastEventID(), "\x00")
		for _, e := range whole {
			again := stream.Event{ID: e.ID, Name: e.Type, Data: []byte(e.Data)}
			if _, err := again.AppendTo(nil); err == nil {
				roundTrip(t, again)
			}
		}
	})
}

// pieces gives its data size bytes at a time, the last with io.EOF if eof.
type pieces struct {
	data []byte
	size int
	eof  bool
}

func (p *pieces) Read(b []byte) (int, error) {
	n := copy(b[:min(p.size, len(b))], p.data)
	p.data = p.data[n:]
	if n == 0 || p.eof && len(p.data) == 0 {
		return n, io.EOF
	}
	return n, nil
}

type mustNotRead struct{ t *testing.T }

func (m mustNotRead) Read([]byte) (int, error) {
	m.t.Error("the decoder waits for more than the blank line")
	return 0, io.EOF
}

type failing struct{ err error }

func (f failing) Read([]byte) (int, error) { return 0, f.err }
