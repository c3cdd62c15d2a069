package settings

import (
	"slices"
	"strings"
)

// reloaded are the sections that a running server takes anew, and fixed what it
// does not of them.
var (
	reloaded = []string{"log.level", "watchdog.", "policy.", "limits.", "retention."}
	fixed    = []string{"watchdog.scan_interval"}
)

// Reloads tells whether a running server takes a setting anew.
func Reloads(name string) bool {
	begins := func(prefix string) bool { return strings.HasPrefix(name, prefix) }
	return slices.ContainsFunc(reloaded, begins) && !slices.Contains(fixed, name)
}

// Change is a setting whose value is another than before.
type Change struct {
	Key
	From, To string
}

// Adopt is l with what a running server takes anew from next, the document whole:
// that is changed,
// and what else differs needs a restart and stays. Both were loaded whole, so
// that a value which cannot be has been refused before.
func (l *Loaded) Adopt(next *Loaded) (merged *Loaded, changed, stays []Change, err error) {
	merged = &Loaded{Unknown: next.Unknown, Document: next.Document}
	for i, f := range fieldsOf(&merged.Settings) {
		was, is := l.Values[i], next.Values[i]
		take := was
		if Reloads(f.Name) {
			take = is
		}
		if was.Text != is.Text && Reloads(f.Name) {
			changed = append(changed, Change{f.Key, was.Text, is.Text})
		} else if was.Text != is.Text {
			stays = append(stays, Change{f.Key, was.Text, is.Text})
		}
		if err := f.set(take.Text); err != nil {
			return nil, nil, nil, &Error{f.Key, take.Text, take.Origin, err.Error()}
		}
		merged.Values = append(merged.Values, take)
	}
	return merged, changed, stays, merged.agree()
}
