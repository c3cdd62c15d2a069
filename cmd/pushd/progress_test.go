package main

import (
	"bytes"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestProgressIsOneLineThatGoesAway(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	p := &progress{w: &out, what: "copying"}
	p.at(0, 4<<20)
	p.at(1<<20, 4<<20) // too soon after the one before
	p.at(4<<20, 4<<20) // the end is always drawn
	require.Equal(t, 2, strings.Count(out.String(), "copying ["))
	require.Contains(t, out.String(), "100 %  4.0 MiB")
	require.NotContains(t, out.String(), "\n")
	p.end()
	require.True(t, strings.HasSuffix(out.String(), " \r"))

	silent := &progress{}
	silent.at(1, 2)
	silent.end()
}

func TestSizesAreSaidAsPeopleDo(t *testing.T) {
	t.Parallel()
	for n, want := range map[int64]string{0: "0 B", 1023: "1023 B", 1536: "1.5 KiB", 5 << 20: "5.0 MiB", 3 << 30: "3.0 GiB"} {
		require.Equal(t, want, sizeText(n))
	}
}
