package output

import "bytes"

// masked stands where a secret was.
var masked = []byte("[masked]")

// mask hides secrets in a stream, wherever its pieces are cut.
type mask struct {
	next    func([]byte)
	secrets [][]byte
	held    []byte // an end that may be a secret's beginning
}

// leastSecret is the length below which a text is no secret: hiding every "a"
// of an output helps nobody.
const leastSecret = 8

func newMask(secrets []string, next func([]byte)) *mask {
	m := &mask{next: next}
	for _, s := range secrets {
		if len(s) >= leastSecret {
			m.secrets = append(m.secrets, []byte(s))
		}
	}
	return m
}

func (m *mask) write(p []byte) {
	if len(m.secrets) == 0 {
		m.next(p)
		return
	}
	if len(m.held) > 0 {
		p = append(m.held, p...)
		m.held = nil
	}
	for {
		at, secret := m.find(p)
		if at < 0 {
			break
		}
		if at > 0 {
			m.next(p[:at])
		}
		m.next(masked)
		p = p[at+len(secret):]
	}
	keep := m.openEnd(p)
	if len(p) > keep {
		m.next(p[:len(p)-keep])
	}
	if keep > 0 {
		m.held = append([]byte(nil), p[len(p)-keep:]...)
	}
}

// find is the first secret in p, the longest of those that begin there.
func (m *mask) find(p []byte) (at int, secret []byte) {
	at = -1
	for _, s := range m.secrets {
		i := bytes.Index(p, s)
		if i >= 0 && (at < 0 || i < at || i == at && len(s) > len(secret)) {
			at, secret = i, s
		}
	}
	return at, secret
}

// openEnd is the length of the longest end of p that a secret begins with.
func (m *mask) openEnd(p []byte) (longest int) {
	for _, s := range m.secrets {
		for n := min(len(s)-1, len(p)); n > longest; n-- {
			if bytes.HasPrefix(s, p[len(p)-n:]) {
				longest = n
			}
		}
	}
	return longest
}

func (m *mask) close() {
	if len(m.held) > 0 {
		m.next(m.held)
		m.held = nil
	}
}
