package proc

import "testing"

func FuzzStat(f *testing.F) {
	f.Add([]byte("12 (a) b) S 1 2 3 4 5 6 7 8 9 10 1 2 3 4 5"))
	f.Fuzz(func(t *testing.T, raw []byte) {
		if p, ok := parseStat(1, raw); ok && p.cpu < 0 {
			t.Fatal(p)
		}
	})
}
