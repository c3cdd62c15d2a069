package server

import (
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

var (
	idForm   = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._:@-]{0,127}$`)
	typeForm = regexp.MustCompile(`^[A-Za-z0-9._-]{1,64}$`)
)

const (
	idMessage  = "must be 1 to 128 of A-Z a-z 0-9 . _ : @ - and begin with a letter or digit"
	maxSeconds = 100 * 366 * 24 * 3600 // a duration far from what time.Duration holds
)

// object is a JSON object being read: each getter takes one field, notes what is
// wrong with it, and gives the zero value where it is absent or wrong.
type object struct {
	at      string // where it stands: "", "[3]", "progress"
	members []member
	faults  *faults
}

// newObject splits value, which must have passed checkJSON, and refuses fields
// that are not known or come twice. at is where it stands in the request.
func newObject(value []byte, at string, known []string, f *faults) (*object, bool) {
	if kind := jsonKind(value); kind != "an object" {
		f.add(at+orBody(at), "must be an object, is %s", kind)
		return nil, false
	}
	o := &object{at: at, members: members(value), faults: f}
	for i, m := range o.members {
		if !slices.Contains(known, m.name) {
			f.add(o.path(cutName(m.name)), "is no field here%s", meant(m.name, known))
			continue
		}
		if slices.ContainsFunc(o.members[:i], func(e member) bool { return e.name == m.name }) {
			f.add(o.path(m.name), "is there twice")
		}
	}
	return o, true
}

// orBody names the top of a body, which has no path.
func orBody(at string) string {
	if at == "" {
		return "body"
	}
	return ""
}

func cutName(name string) string {
	unquoted := quote(name)
	return unquoted[1 : len(unquoted)-1]
}

func (o *object) path(name string) string {
	if o.at == "" {
		return name
	}
	return o.at + "." + name
}

func (o *object) fault(name, format string, args ...any) {
	o.faults.add(o.path(name), format, args...)
}

func (o *object) find(name string) ([]byte, bool) {
	for _, m := range o.members {
		if m.name == name {
			return m.value, true
		}
	}
	return nil, false
}

func (o *object) has(name string) bool {
	_, there := o.find(name)
	return there
}

// kind finds a field of the kind wanted.
func (o *object) kind(name, want string) ([]byte, bool) {
	value, there := o.find(name)
	if !there {
		return nil, false
	}
	if is := jsonKind(value); is != want {
		o.fault(name, "must be %s, is %s", want, is)
		return nil, false
	}
	return value, true
}

func (o *object) require(name string) {
	if !o.has(name) {
		o.fault(name, "is required")
	}
}

func (o *object) text(name string) (string, bool) {
	value, ok := o.kind(name, "a string")
	if !ok {
		return "", false
	}
	return unquote(value), true
}

// short is a text of at most most bytes.
func (o *object) short(name string, most int) string {
	s, ok := o.text(name)
	if ok && len(s) > most {
		o.fault(name, "is %d bytes long, at most %d are taken", len(s), most)
		return ""
	}
	return s
}

func (o *object) id(name string) string {
	s, ok := o.text(name)
	if ok && !idForm.MatchString(s) {
		o.fault(name, "%s, is %s", idMessage, quote(s))
		return ""
	}
	return s
}

// machine is an id that is not reserved.
func (o *object) machine(name string) string {
	s := o.id(name)
	if strings.HasPrefix(s, "pool:") {
		o.fault(name, "%s: ids that begin with pool: are reserved", quote(s))
		return ""
	}
	return s
}

// target is what an action depends on.
func (o *object) target(name string) string {
	s, ok := o.text(name)
	if !ok {
		return ""
	}
	if s == "" || len(s) > 256 || strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r == 0x7f }) {
		o.fault(name, "must be 1 to 256 bytes without control characters, is %s", quote(s))
		return ""
	}
	return s
}

// oneOf is a text out of a few; absent is the first of them.
func (o *object) oneOf(name string, words ...string) int {
	s, ok := o.text(name)
	if !ok {
		return 0
	}
	i := slices.Index(words, s)
	if i < 0 {
		o.fault(name, "must be %s, is %s", strings.Join(words, " or "), quote(s))
		return 0
	}
	return i
}

// whole is a whole number between low and high, absent where it is not given.
func (o *object) whole(name string, low, high, absent int) int {
	value, ok := o.kind(name, "a number")
	if !ok {
		return absent
	}
	n, err := strconv.Atoi(string(value))
	if err != nil || n < low || n > high {
		o.fault(name, "must be a whole number from %d to %d, is %s", low, high, cutName(string(value)))
		return absent
	}
	return n
}

// seconds is a duration. It tells whether it was given.
func (o *object) seconds(name string) (time.Duration, bool) {
	value, ok := o.kind(name, "a number")
	if !ok {
		return 0, o.has(name)
	}
	d, err := parseSeconds(string(value))
	if err != "" {
		o.fault(name, "%s, is %s", err, cutName(string(value)))
	}
	return d, true
}

// timeout is a duration that must be more than nothing.
func (o *object) timeout(name string) time.Duration {
	bad := len(o.faults.fields)
	d, given := o.seconds(name)
	if given && d <= 0 && len(o.faults.fields) == bad {
		o.fault(name, "must be more than 0 seconds")
	}
	return d
}

// parseSeconds reads a duration in seconds; the text it returns says what is wrong.
func parseSeconds(text string) (time.Duration, string) {
	f, err := strconv.ParseFloat(text, 64)
	switch {
	case err != nil || math.IsNaN(f) || math.IsInf(f, 0) || strings.ContainsAny(text, "xXpP_"):
		return 0, "must be a number of seconds"
	case f < 0:
		return 0, "must not be negative"
	case f > maxSeconds:
		return 0, "must be at most " + strconv.Itoa(maxSeconds) + " seconds"
	}
	return time.Duration(math.Round(f * float64(time.Second))), ""
}

// instant is a time with a zone; the zero time where it is absent or wrong.
func (o *object) instant(name string) time.Time {
	s, ok := o.text(name)
	if !ok {
		return time.Time{}
	}
	t, err := time.Parse(time.RFC3339Nano, s)
	if err != nil || t.Year() < 1 || t.Year() > 9999 {
		o.fault(name, "must be an RFC 3339 time with a zone, such as 2031-01-02T03:04:05Z, is %s", quote(s))
		return time.Time{}
	}
	return t.UTC()
}

func (o *object) flag(name string) bool {
	value, ok := o.kind(name, "a boolean")
	return ok && value[0] == 't'
}

// verbatim is a field's text as it was sent, white space aside; nil if absent.
// One that is longer than most bytes is too large.
func (o *object) verbatim(name, setting string, most int64) []byte {
	value, there := o.find(name)
	if !there {
		return nil
	}
	value = compact(value)
	if int64(len(value)) > most {
		o.faults.large(o.path(name), "has %d bytes, %s is %d", len(value), setting, most)
	}
	return value
}

// contradicts notes that two fields exclude each other.
func (o *object) contradicts(one, other string) bool {
	if o.has(one) && o.has(other) {
		o.fault(other, "contradicts %s: give one of them", one)
		return true
	}
	return false
}

// meant suggests the known name that differs from name by one slip.
func meant(name string, known []string) string {
	for _, k := range known {
		if len(name) < 64 && slips(strings.ToLower(name), k) <= 2 {
			return "; did you mean " + k + "?"
		}
	}
	return ""
}

// slips is the edit distance of two short names.
func slips(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		last := row[0]
		row[0] = i + 1
		for j := range len(b) {
			change := last
			if a[i] != b[j] {
				change++
			}
			last = row[j+1]
			row[j+1] = min(change, row[j+1]+1, row[j]+1)
		}
	}
	return row[len(b)]
}
