package webhook

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strings"

	"go.yaml.in/yaml/v3"
)

// condition is one line of a route's when.
type condition interface{ holds(m *Message) bool }

// all hold; any of them holds; none holds.
type (
	allOf []condition
	anyOf []condition
	notOf struct{ condition }
)

func (c allOf) holds(m *Message) bool {
	for _, one := range c {
		if !one.holds(m) {
			return false
		}
	}
	return true
}

func (c anyOf) holds(m *Message) bool {
	for _, one := range c {
		if one.holds(m) {
			return true
		}
	}
	return false
}

func (c notOf) holds(m *Message) bool { return !c.condition.holds(m) }

// at compares the value at a path.
type at struct {
	path path
	test func(value any, found bool) bool
}

func (c at) holds(m *Message) bool { return c.test(m.find(c.path)) }

// parseWhen reads a mapping of paths, of which all must hold. The names not, any
// and all hold further ones.
func parseWhen(node *yaml.Node) (condition, error) {
	if node.Kind == 0 {
		return allOf{}, nil
	}
	if node.Kind != yaml.MappingNode {
		return nil, lineError(node, "when must hold paths and what they must be")
	}
	var c allOf
	for i := 0; i+1 < len(node.Content); i += 2 {
		one, err := parseEntry(node.Content[i], node.Content[i+1])
		if err != nil {
			return nil, err
		}
		c = append(c, one)
	}
	return c, nil
}

func parseEntry(key, value *yaml.Node) (condition, error) {
	switch key.Value {
	case "not":
		inner, err := parseWhen(value)
		return notOf{inner}, err
	case "any", "all":
		if value.Kind != yaml.SequenceNode {
			return nil, lineError(value, "%s must be a list", key.Value)
		}
		var list []condition
		for _, item := range value.Content {
			inner, err := parseWhen(item)
			if err != nil {
				return nil, err
			}
			list = append(list, inner)
		}
		if key.Value == "any" {
			return anyOf(list), nil
		}
		return allOf(list), nil
	}
	p, ok := parsePath(key.Value)
	if !ok {
		return nil, lineError(key, "%q is no path: header.NAME, body.PATH, action.PATH, delivery.NAME; or not, any, all", key.Value)
	}
	return parseTests(p, value)
}

// parseTests reads what a path must be: a value, a list of which any will do, or
// tests by name, of which all must hold.
func parseTests(p path, node *yaml.Node) (condition, error) {
	switch node.Kind {
	case yaml.ScalarNode:
		return at{p, equals(node)}, nil
	case yaml.SequenceNode:
		var list anyOf
		for _, item := range node.Content {
			one, err := parseTests(p, item)
			if err != nil {
				return nil, err
			}
			list = append(list, one)
		}
		return list, nil
	case yaml.MappingNode:
		var list allOf
		for i := 0; i+1 < len(node.Content); i += 2 {
			test, err := parseTest(node.Content[i].Value, node.Content[i+1])
			if err != nil {
				return nil, lineError(node.Content[i], "%v", err)
			}
			list = append(list, at{p, test})
		}
		return list, nil
	}
	return nil, lineError(node, "cannot be read")
}

// equals compares a scalar by its text; a null is only null or what is not there.
func equals(node *yaml.Node) func(any, bool) bool {
	if node.Tag == "!!null" {
		return func(v any, found bool) bool { _, is := v.(null); return !found || is }
	}
	want := node.Value
	return func(v any, found bool) bool { return found && isScalar(v) && text(v, true) == want }
}

func isScalar(v any) bool {
	switch v.(type) {
	case string, bool, json.Number:
		return true
	}
	return false
}

// parseTest reads a test by its name.
func parseTest(name string, node *yaml.Node) (func(any, bool) bool, error) {
	if name == "exists" {
		switch node.Value {
		case "true", "false":
			want := node.Value == "true"
			return func(_ any, found bool) bool { return found == want }, nil
		}
		return nil, errors.New("exists must be true or false")
	}
	if node.Kind != yaml.ScalarNode {
		return nil, fmt.Errorf("%s must be a text", name)
	}
	arg := node.Value
	onText := func(test func(string) bool) func(any, bool) bool {
		return func(v any, found bool) bool { return found && isScalar(v) && test(text(v, true)) }
	}
	switch name {
	case "is":
		return equals(node), nil
	case "prefix":
		return onText(func(s string) bool { return strings.HasPrefix(s, arg) }), nil
	case "suffix":
		return onText(func(s string) bool { return strings.HasSuffix(s, arg) }), nil
	case "contains":
		return onText(func(s string) bool { return strings.Contains(s, arg) }), nil
	case "glob":
		return onText(globOf(arg).MatchString), nil
	case "regex":
		re, err := regexp.Compile(arg)
		if err != nil {
			return nil, fmt.Errorf("regex %q is no RE2 expression", arg)
		}
		return onText(re.MatchString), nil
	}
	return nil, fmt.Errorf("%q is no test: is, prefix, suffix, contains, glob, regex, exists", name)
}

// globOf reads * as any text, slashes too, and ? as one character.
func globOf(pattern string) *regexp.Regexp {
	quoted := regexp.QuoteMeta(pattern)
	quoted = strings.ReplaceAll(strings.ReplaceAll(quoted, `\*`, `.*`), `\?`, `.`)
	return regexp.MustCompile(`(?s)^` + quoted + `$`)
}

func lineError(node *yaml.Node, format string, args ...any) error {
	return fmt.Errorf("line %d: %s", node.Line, fmt.Sprintf(format, args...))
}
