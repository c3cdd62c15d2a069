package output

// Tail keeps the last bytes of a stream. Its zero value keeps TailSize.
type Tail struct {
	ring  []byte
	at    int
	total int64
}

// TailSize is what a Tail keeps.
const TailSize = 64 << 10

// Add takes more of the stream.
func (t *Tail) Add(p []byte) {
	t.total += int64(len(p))
	p = p[max(0, len(p)-TailSize):]
	if room := TailSize - len(t.ring); room > 0 {
		n := min(room, len(p))
		t.ring = append(t.ring, p[:n]...)
		p = p[n:]
	}
	for len(p) > 0 {
		n := copy(t.ring[t.at:], p)
		t.at = (t.at + n) % TailSize
		p = p[n:]
	}
}

// Total is how many bytes came.
func (t *Tail) Total() int64 { return t.total }

// Bytes are the last ones, whole lines where they were cut and one is there.
func (t *Tail) Bytes() []byte {
	out := append(append([]byte(nil), t.ring[t.at:]...), t.ring[:t.at]...)
	if t.total <= int64(len(out)) {
		return out
	}
	for i, c := range out[:min(len(out), 4<<10)] {
		if c == '\n' {
			return out[i+1:]
		}
	}
	return out
}
