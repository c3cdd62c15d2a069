package settings

import (
	"fmt"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// readYAML flattens a document of nested maps into keys: `watchdog:` with
// `ceiling:` under it, or `watchdog.ceiling:`, are the same. Values are handed
// on as the text that stands in the file, so that they are parsed by one rule
// wherever they come from. An unknown key, a repeated one, or a shape that no
// setting has, is an error.
func readYAML(path string, raw []byte, known map[string]string, say func(name, text, origin string)) error {
	var doc yaml.Node
	if err := yaml.Unmarshal(raw, &doc); err != nil {
		return fmt.Errorf("settings file %s: %s", path, oneLine(err.Error()))
	}
	if len(doc.Content) == 0 {
		return nil // an empty file says nothing
	}
	r := &yamlReader{path: path, known: known, say: say, seen: map[string]int{}}
	return r.walk("", doc.Content[0])
}

// sections are parts of a settings file that are no settings: their readers find
// them in [Loaded.Document].
var sections = []string{"webhooks", "alerts"}

type yamlReader struct {
	path  string
	known map[string]string
	say   func(name, text, origin string)
	seen  map[string]int // key to line
}

func (r *yamlReader) walk(prefix string, node *yaml.Node) error {
	if node.Kind != yaml.MappingNode {
		return r.fail(node, "%s must hold keys and values", orTop(prefix))
	}
	for i := 0; i+1 < len(node.Content); i += 2 {
		key, value := node.Content[i], node.Content[i+1]
		name := key.Value
		if prefix != "" {
			name = prefix + "." + name
		}
		if err := r.entry(name, key, value); err != nil {
			return err
		}
	}
	return nil
}

func (r *yamlReader) entry(name string, key, value *yaml.Node) error {
	if slices.Contains(sections, name) {
		return nil
	}
	if r.known[name] != name {
		if r.isSection(name) {
			if value.Tag == "!!null" {
				return nil // a section whose lines are all commented out
			}
			return r.walk(name, value)
		}
		return r.fail(key, "unknown key %s", name)
	}
	if line, twice := r.seen[name]; twice {
		return r.fail(key, "%s stands in line %d already", name, line)
	}
	r.seen[name] = key.Line
	text, err := r.scalar(name, value)
	if err != nil {
		return err
	}
	r.say(name, text, fmt.Sprintf("%s:%d", r.path, value.Line))
	return nil
}

// scalar is the text of a value; a list is written with commas elsewhere.
func (r *yamlReader) scalar(name string, value *yaml.Node) (string, error) {
	switch {
	case value.Tag == "!!null":
		return "", nil
	case value.Kind == yaml.ScalarNode:
		return value.Value, nil
	case value.Kind == yaml.SequenceNode:
		items := make([]string, len(value.Content))
		for i, item := range value.Content {
			if item.Kind != yaml.ScalarNode {
				return "", r.fail(item, "%s must be a plain list", name)
			}
			items[i] = item.Value
		}
		return strings.Join(items, ","), nil
	}
	return "", r.fail(value, "%s must be a single value", name)
}

// isSection tells whether keys begin with name and a dot.
func (r *yamlReader) isSection(name string) bool {
	for key := range r.known {
		if strings.HasPrefix(key, name+".") {
			return true
		}
	}
	return false
}

func (r *yamlReader) fail(at *yaml.Node, format string, args ...any) error {
	return fmt.Errorf("settings file %s:%d: %s", r.path, at.Line, fmt.Sprintf(format, args...))
}

func orTop(prefix string) string {
	if prefix == "" {
		return "the file"
	}
	return prefix
}

func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }
