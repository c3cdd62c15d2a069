package work

import (
	"strconv"
	"strings"
)

// Rule picks texts out of an event.
type Rule struct {
	Where map[string]string `yaml:"where"` // dotted path to value; "a|b" is any of them
	Each  string            `yaml:"each"`  // dotted path to a list: then item and pick are of its elements
	Item  map[string]string `yaml:"item"`
	Pick  string            `yaml:"pick"`
}

// from are the texts that a rule picks.
func (r Rule) from(event any) (texts []string) {
	if !holds(r.Where, event) {
		return nil
	}
	items := []any{event}
	if r.Each != "" {
		items, _ = at(event, r.Each).([]any)
	}
	for _, item := range items {
		if !holds(r.Item, item) {
			continue
		}
		if text, ok := asText(at(item, r.Pick)); ok && text != "" {
			texts = append(texts, text)
		}
	}
	return texts
}

func holds(all map[string]string, in any) bool {
	for path, want := range all {
		got, ok := asText(at(in, path))
		if !ok {
			return false
		}
		any := false
		for choice := range strings.SplitSeq(want, "|") {
			any = any || choice == got
		}
		if !any {
			return false
		}
	}
	return true
}

func at(v any, path string) any {
	for name := range strings.SplitSeq(path, ".") {
		object, ok := v.(map[string]any)
		if !ok {
			return nil
		}
		v = object[name]
	}
	return v
}

func asText(v any) (string, bool) {
	switch v := v.(type) {
	case string:
		return v, true
	case bool:
		return strconv.FormatBool(v), true
	case float64:
		return strconv.FormatFloat(v, 'f', -1, 64), true
	}
	return "", false
}
