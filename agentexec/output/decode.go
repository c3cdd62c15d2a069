package output

import (
	"bytes"
	"unicode/utf16"
	"unicode/utf8"
)

// decoder turns UTF-16, by its mark or by the pattern of its NULs, into UTF-8,
// drops a byte order mark, and hands on everything else as it is. PowerShell 5
// writes UTF-16 into pipes, and others put a mark before UTF-8.
type decoder struct {
	next func([]byte)
	kind encoding
	held []byte // too few to tell, or half a unit or pair
	out  []byte
}

type encoding uint8

const (
	unknown encoding = iota
	asItIs
	littleEndian
	bigEndian
)

// enough bytes tell the encoding.
const enough = 4

// Write takes bytes of any encoding; it never fails.
func (d *decoder) write(p []byte) {
	if d.kind == unknown {
		d.held = append(d.held, p...)
		if len(d.held) < enough {
			return
		}
		d.settle()
		return
	}
	d.pass(p)
}

// close hands on what was held back.
func (d *decoder) close() {
	if d.kind == unknown {
		d.settle()
	}
	if d.kind != asItIs && len(d.held) > 0 {
		d.next([]byte("\ufffd")) // half a unit, or half a pair
		d.held = nil
	}
}

func (d *decoder) settle() {
	held := d.held
	d.held = nil
	switch {
	case bytes.HasPrefix(held, []byte{0xff, 0xfe}):
		d.kind, held = littleEndian, held[2:]
	case bytes.HasPrefix(held, []byte{0xfe, 0xff}):
		d.kind, held = bigEndian, held[2:]
	case bytes.HasPrefix(held, []byte("\ufeff")):
		d.kind, held = asItIs, held[3:]
	case len(held) >= enough && held[0] != 0 && held[1] == 0 && held[2] != 0 && held[3] == 0:
		d.kind = littleEndian
	case len(held) >= enough && held[0] == 0 && held[1] != 0 && held[2] == 0 && held[3] != 0:
		d.kind = bigEndian
	default:
		d.kind = asItIs
	}
	d.pass(held)
}

func (d *decoder) pass(p []byte) {
	if len(p) == 0 {
		return
	}
	if d.kind == asItIs {
		d.next(p)
		return
	}
	if len(d.held) > 0 {
		p = append(d.held, p...)
		d.held = nil
	}
	d.out = d.out[:0]
	for len(p) >= 2 {
		r, size := rune(d.unit(p)), 2
		if utf16.IsSurrogate(r) {
			if len(p) < 4 {
				break
			}
			if pair := utf16.DecodeRune(r, rune(d.unit(p[2:]))); pair != utf8.RuneError {
				r, size = pair, 4
			}
		}
		d.out = utf8.AppendRune(d.out, r)
		p = p[size:]
	}
	d.held = append([]byte(nil), p...)
	if len(d.out) > 0 {
		d.next(d.out)
	}
}

func (d *decoder) unit(p []byte) uint16 {
	if d.kind == bigEndian {
		return uint16(p[0])<<8 | uint16(p[1])
	}
	return uint16(p[1])<<8 | uint16(p[0])
}

// UTF8 is a file of any of these encodings as UTF-8: what Notepad or PowerShell
// has written.
func UTF8(raw []byte) (out []byte) {
	d := decoder{next: func(p []byte) { out = append(out, p...) }}
	d.write(raw)
	d.close()
	return out
}

// Text makes text of bytes for a person and for JSON. What is not UTF-8 is taken
// for Windows-1252, line by line, for one program's output may hold another's.
// odd tells that it did so: another code page would have read the same bytes
// otherwise. NUL and other control characters but tab and line ends are shown by
// their pictures.
func Text(raw []byte) (text string, odd bool) {
	var out []byte
	for len(raw) > 0 {
		line := raw
		if i := bytes.IndexByte(raw, '\n'); i >= 0 {
			line = raw[:i+1]
		}
		raw = raw[len(line):]
		if !utf8.Valid(line) {
			odd = true
			out = appendWindows(out, line)
			continue
		}
		out = append(out, line...)
	}
	return string(bytes.Map(visible, out)), odd
}

func visible(r rune) rune {
	switch {
	case r == '\t' || r == '\n' || r == '\r' || r == 0x1b: // colours are the reader's business
		return r
	case r < 0x20:
		return 0x2400 + r
	case r == 0x7f:
		return 0x2421
	}
	return r
}

// high is Windows-1252 from 0x80 to 0x9f; the rest of it is Latin-1.
var high = [32]rune{
	'€', 0x81, '‚', 'ƒ', '„', '…', '†', '‡', 'ˆ', '‰', 'Š', '‹', 'Œ', 0x8d, 'Ž', 0x8f,
	0x90, '‘', '’', '“', '”', '•', '–', '—', '˜', '™', 'š', '›', 'œ', 0x9d, 'ž', 'Ÿ',
}

func appendWindows(out, line []byte) []byte {
	for _, c := range line {
		if c >= 0x80 && c < 0xa0 {
			out = utf8.AppendRune(out, high[c-0x80])
			continue
		}
		out = utf8.AppendRune(out, rune(c))
	}
	return out
}
