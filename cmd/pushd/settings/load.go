package settings

import (
	"fmt"
	"net/url"
	"os"
	"reflect"
	"slices"
	"strconv"
	"strings"
)

// Key tells of one setting.
type Key struct {
	Name    string // watchdog.orphan_timeout
	Env     string // PUSHD_WATCHDOG_ORPHAN_TIMEOUT
	Default string
	Doc     string
}

// Keys lists every setting in the order of the struct.
func Keys() []Key {
	fields := fieldsOf(new(Settings))
	keys := make([]Key, len(fields))
	for i, f := range fields {
		keys[i] = f.Key
	}
	return keys
}

// Sources are where values come from, in the order in which they win.
type Sources struct {
	File    string   // a YAML file; empty is none
	Environ []string // NAME=value, as os.Environ gives it
	Set     []string // key=value, as flags give it
}

// Value is a setting in force and where it came from.
type Value struct {
	Key
	Text   string
	Origin string // default, FILE:LINE, the variable's name, or --set
}

// Loaded is what the sources said.
type Loaded struct {
	Settings
	Values  []Value
	Unknown []string // PUSHD_ variables that are no setting of ours

	Document []byte // the settings file as it stands, for those who read the sections webhooks and alerts
}

// Error is a value that cannot be.
type Error struct {
	Key    Key
	Text   string
	Origin string
	Reason string
}

func (e *Error) Error() string {
	text := e.Text
	if u, err := url.Parse(text); err == nil && u.User != nil {
		text = u.Redacted() // a password in an address is refused, and not spelled out either
	}
	return fmt.Sprintf("%s (%s) from %s: %q %s", e.Key.Name, e.Key.Env, e.Origin, text, e.Reason)
}

// clientVariables are what pushctl reads, and what tests hand over; they are no
// settings of the service.
var clientVariables = []string{"PUSHD_URL", "PUSHD_TOKEN", "PUSHD_TOKEN_FILE", "PUSHD_CA", "PUSHD_CONFIG", "PUSHD_BIN"}

// Load applies the sources over the defaults and checks the whole.
func Load(src Sources) (*Loaded, error) {
	l := &Loaded{}
	fields := fieldsOf(&l.Settings)
	if src.File != "" {
		raw, err := os.ReadFile(src.File)
		if err != nil {
			return nil, fmt.Errorf("settings file: %w", err)
		}
		l.Document = raw
	}
	said, err := gather(src, l.Document, fields, &l.Unknown)
	if err != nil {
		return nil, err
	}
	for _, f := range fields {
		from, ok := said[f.Name]
		if !ok {
			from = statement{f.Default, "default"}
		}
		if err := f.set(from.text); err != nil {
			return nil, &Error{f.Key, from.text, from.origin, err.Error()}
		}
		l.Values = append(l.Values, Value{f.Key, f.text(), from.origin})
	}
	return l, l.agree()
}

// agree checks what each value allows and two together do not.
func (l *Loaded) agree() error {
	if l.Policy.BackoffBase > l.Policy.BackoffMax {
		v := l.value("policy.backoff_base")
		return &Error{v.Key, v.Text, v.Origin, "is longer than policy.backoff_max, " + FormatDuration(l.Policy.BackoffMax)}
	}
	if (l.TLS.CertFile == "") != (l.TLS.KeyFile == "") {
		v := l.value("tls.cert_file")
		return &Error{v.Key, v.Text, v.Origin, "goes with tls.key_file: both, or none"}
	}
	if l.TLS.ClientCAFile != "" && l.TLS.CertFile == "" {
		v := l.value("tls.client_ca_file")
		return &Error{v.Key, v.Text, v.Origin, "needs tls.cert_file: certificates are shown over TLS only"}
	}
	return nil
}

func (l *Loaded) value(name string) Value {
	i := slices.IndexFunc(l.Values, func(v Value) bool { return v.Name == name })
	return l.Values[i]
}

// statement is what one source says of one key.
type statement struct{ text, origin string }

// gather asks the sources in turn; an empty text says nothing.
func gather(src Sources, file []byte, fields []*field, unknown *[]string) (map[string]statement, error) {
	said := map[string]statement{}
	known := map[string]string{} // by either name
	for _, f := range fields {
		known[f.Name], known[f.Env] = f.Name, f.Name
	}
	say := func(name, text, origin string) {
		if strings.TrimSpace(text) != "" {
			said[name] = statement{text, origin}
		}
	}
	if src.File != "" {
		if err := readYAML(src.File, file, known, say); err != nil {
			return nil, err
		}
	}
	for _, kv := range src.Environ {
		name, text, _ := strings.Cut(kv, "=")
		if !strings.HasPrefix(name, "PUSHD_") || slices.Contains(clientVariables, name) {
			continue
		}
		if key, ok := known[name]; ok {
			say(key, text, "environment")
		} else {
			*unknown = append(*unknown, name)
		}
	}
	for _, kv := range src.Set {
		key, text, found := strings.Cut(kv, "=")
		key = strings.TrimSpace(key)
		if !found {
			return nil, fmt.Errorf("--set %s: write key=value", kv)
		}
		if known[key] != key {
			return nil, fmt.Errorf("--set %s: no such setting%s", kv, nearest(key, fields))
		}
		say(key, text, "--set")
	}
	return said, nil
}

// nearest suggests the key that was perhaps meant: one that shares its last word.
func nearest(key string, fields []*field) string {
	word := key[strings.LastIndex(key, ".")+1:]
	for _, f := range fields {
		if word != "" && strings.HasSuffix(f.Name, word) {
			return ", perhaps " + f.Name
		}
	}
	return "; `pushctl config show` lists them"
}

// fieldsOf walks the struct; its tags are the table of docs/settings.md.
func fieldsOf(s *Settings) []*field {
	var fields []*field
	var walk func(v reflect.Value)
	walk = func(v reflect.Value) {
		for i := range v.NumField() {
			tag := v.Type().Field(i).Tag
			name := tag.Get("key")
			if name == "" {
				walk(v.Field(i))
				continue
			}
			f := &field{
				Key: Key{
					Name:    name,
					Env:     "PUSHD_" + strings.ToUpper(strings.ReplaceAll(name, ".", "_")),
					Default: tag.Get("default"),
					Doc:     tag.Get("doc"),
				},
				kind:  tag.Get("kind"),
				zero:  tag.Get("zero") != "",
				value: v.Field(i),
			}
			f.min, _ = strconv.Atoi(tag.Get("min"))
			f.oneof = strings.Fields(tag.Get("oneof"))
			fields = append(fields, f)
		}
	}
	walk(reflect.ValueOf(s).Elem())
	return fields
}
