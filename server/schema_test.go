package server_test

import (
	"encoding/json"
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"time"
	"unicode/utf8"
)

// schemas checks values against the JSON Schema of openapi.yaml: the words that
// it uses, and a word that is none of them is a fault, so that nothing described
// goes unchecked. A field that an object's schema does not name is a fault too,
// unless it says additionalProperties: true: a description that has fallen behind
// is wrong, though clients must bear with it.
//
// A full validator was tried (pb33f/libopenapi-validator): compiling it takes
// minutes, more than all the rest of this module.
type schemas struct {
	c     *contract
	at    string
	wrong []string
}

func (s *schemas) fault(format string, args ...any) {
	s.wrong = append(s.wrong, s.at+": "+fmt.Sprintf(format, args...))
}

// checkText checks a parameter or a header.
func (s *schemas) checkText(text string, schema map[string]any, name string) {
	var value any = text
	kinds := kindsOf(s.c.deref(schema))
	if slices.Contains(kinds, "integer") || slices.Contains(kinds, "number") {
		value = json.Number(text)
		if _, err := strconv.ParseFloat(text, 64); err != nil {
			s.fault("%s is no number: %s", name, text)
			return
		}
	}
	s.check(value, schema, name)
}

func (s *schemas) check(v any, schema map[string]any, at string) {
	if ref, is := schema["$ref"].(string); is {
		s.check(v, s.c.resolve(ref), at)
	}
	if kinds := kindsOf(schema); len(kinds) > 0 && !slices.ContainsFunc(kinds, func(k string) bool { return isKind(v, k) }) {
		s.fault("%s is no %v: %v", at, kinds, v)
		return
	}
	for word, want := range schema {
		switch word {
		case "$ref", "type", "description", "default", "examples", "additionalProperties", "summary":
		case "enum":
			if !slices.Contains(listOf(want), v) {
				s.fault("%s is none of %v: %v", at, want, v)
			}
		case "const":
			if !reflect.DeepEqual(v, want) {
				s.fault("%s is not %v: %v", at, want, v)
			}
		case "oneOf":
			s.checkOneOf(v, listOf(want), at)
		case "properties", "required", "maxProperties":
			s.checkObject(v, word, want, schema, at)
		case "items", "minItems", "maxItems":
			s.checkArray(v, word, want, at)
		case "minimum", "maximum", "exclusiveMinimum":
			s.checkNumber(v, word, want, at)
		case "pattern", "format", "minLength", "maxLength":
			s.checkString(v, word, want, at)
		default:
			s.fault("the description of %s uses %s, which is not checked", at, word)
		}
	}
	if more, told := schema["additionalProperties"]; told && schema["properties"] == nil {
		if element, is := more.(map[string]any); is {
			for name, field := range mapOf(v) {
				s.check(field, element, at+"."+name)
			}
		}
	}
}

func kindsOf(schema map[string]any) []string {
	switch t := schema["type"].(type) {
	case string:
		return []string{t}
	case []any:
		var all []string
		for _, one := range t {
			all = append(all, one.(string))
		}
		return all
	}
	return nil
}

func isKind(v any, kind string) bool {
	switch v := v.(type) {
	case nil:
		return kind == "null"
	case string:
		return kind == "string"
	case bool:
		return kind == "boolean"
	case map[string]any:
		return kind == "object"
	case []any:
		return kind == "array"
	case json.Number:
		_, err := strconv.ParseInt(v.String(), 10, 64)
		return kind == "number" || kind == "integer" && err == nil
	}
	return false
}

func (s *schemas) checkOneOf(v any, choices []any, at string) {
	var reasons []string
	fits := 0
	for _, choice := range choices {
		try := &schemas{c: s.c, at: s.at}
		try.check(v, mapOf(choice), at)
		if len(try.wrong) == 0 {
			fits++
		}
		reasons = append(reasons, try.wrong...)
	}
	if fits != 1 {
		s.fault("%s fits %d of the choices: %v", at, fits, reasons)
	}
}

func (s *schemas) checkObject(v any, word string, want any, schema map[string]any, at string) {
	fields, is := v.(map[string]any)
	if !is {
		return
	}
	switch word {
	case "required":
		for _, name := range listOf(want) {
			if _, there := fields[name.(string)]; !there {
				s.fault("%s.%v is missing", at, name)
			}
		}
	case "maxProperties":
		if len(fields) > want.(int) {
			s.fault("%s has %d fields", at, len(fields))
		}
	case "properties":
		known := mapOf(want)
		for name, field := range fields {
			if known, told := known[name]; told {
				s.check(field, mapOf(known), at+"."+name)
			} else if schema["additionalProperties"] != true {
				s.fault("%s.%s is not described", at, name)
			}
		}
	}
}

func (s *schemas) checkArray(v any, word string, want any, at string) {
	items, is := v.([]any)
	if !is {
		return
	}
	switch word {
	case "items":
		for i, item := range items {
			s.check(item, mapOf(want), fmt.Sprintf("%s[%d]", at, i))
		}
	case "minItems":
		if len(items) < want.(int) {
			s.fault("%s has only %d items", at, len(items))
		}
	case "maxItems":
		if len(items) > want.(int) {
			s.fault("%s has %d items", at, len(items))
		}
	}
}

func (s *schemas) checkNumber(v any, word string, want any, at string) {
	number, is := v.(json.Number)
	if !is {
		return
	}
	n, _ := number.Float64()
	bound, _ := strconv.ParseFloat(fmt.Sprint(want), 64)
	if word == "minimum" && n < bound || word == "maximum" && n > bound || word == "exclusiveMinimum" && n <= bound {
		s.fault("%s is %v: %s %v", at, n, word, bound)
	}
}

func (s *schemas) checkString(v any, word string, want any, at string) {
	text, is := v.(string)
	if !is {
		return
	}
	bad := false
	switch word {
	case "pattern":
		bad = !regexp.MustCompile(want.(string)).MatchString(text)
	case "minLength":
		bad = utf8.RuneCountInString(text) < want.(int)
	case "maxLength":
		bad = utf8.RuneCountInString(text) > want.(int)
	case "format":
		switch want {
		case "date-time":
			_, err := time.Parse(time.RFC3339Nano, text)
			bad = err != nil
		case "uri-reference":
		default:
			s.fault("the description of %s uses the format %v, which is not checked", at, want)
		}
	}
	if bad {
		s.fault("%s is against %s %v: %.100q", at, word, want, text)
	}
}
