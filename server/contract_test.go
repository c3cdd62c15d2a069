package server_test

import (
	"encoding/json"
	"io"
	"mime"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"

	"pushd/docs"
)

// general are the statuses that openapi.yaml gives every route in its introduction.
var general = []string{"400", "401", "403", "405", "408", "421", "429", "500", "503"}

// contract is openapi.yaml as a judge of what goes over the wire.
type contract struct{ doc map[string]any }

var theContract = sync.OnceValues(func() (*contract, error) {
	c := &contract{}
	return c, yaml.Unmarshal(docs.OpenAPI, &c.doc)
})

// keepsContract holds a request that was taken, and any answer, against
// openapi.yaml. What was refused may have been wrong on purpose.
func (r *rig) keepsContract(req *http.Request, a answer) {
	r.t.Helper()
	c, err := theContract()
	require.NoError(r.t, err)
	body := []byte{}
	if req.Body != nil {
		body, err = io.ReadAll(req.Body)
		require.NoError(r.t, err)
	}
	wrong := c.judge(req, body, a)
	require.Empty(r.t, wrong, "openapi.yaml says otherwise of %s %s: %d\n%s\n%s", req.Method, req.URL.Path, a.status, body, a.body)
}

// judge tells what is wrong with an exchange.
func (c *contract) judge(req *http.Request, body []byte, a answer) []string {
	item, path := c.find(req.URL.Path)
	op, _ := item[strings.ToLower(req.Method)].(map[string]any)
	if op == nil {
		return nil // a page, HEAD, or what is not there: no operation
	}
	s := &schemas{c: c}
	if a.status < 300 {
		s.at = "request"
		c.judgeParameters(s, item, op, path, req)
		c.judgeBody(s, op, req.Header.Get("Content-Type"), body)
	}
	s.at = "answer"
	answers := op["responses"].(map[string]any)
	told, ok := answers[strconv.Itoa(a.status)]
	if !ok && slices.Contains(general, strconv.Itoa(a.status)) {
		told, ok = c.resolve("#/components/responses/Malformed"), true
	}
	if !ok {
		return append(s.wrong, "no such status is described: "+strconv.Itoa(a.status))
	}
	described := c.deref(told)
	for name, h := range mapOf(described["headers"]) {
		if value := a.header.Get(name); value == "" {
			s.fault("header %s is missing", name)
		} else {
			s.checkText(value, mapOf(c.deref(h)["schema"]), name)
		}
	}
	s.checkContent(mapOf(described["content"]), a.header.Get("Content-Type"), a.body)
	return s.wrong
}

// find is the item of a path and what fills its braces.
func (c *contract) find(path string) (item map[string]any, filled map[string]string) {
	for template, item := range c.doc["paths"].(map[string]any) {
		form := "^" + regexp.MustCompile(`\\\{(\w+)\\\}`).ReplaceAllString(regexp.QuoteMeta(template), `(?P<$1>[^/]+)`) + "$"
		re := regexp.MustCompile(form)
		m := re.FindStringSubmatch(path)
		if m == nil {
			continue
		}
		filled = map[string]string{}
		for i, name := range re.SubexpNames() {
			if name != "" {
				filled[name] = m[i]
			}
		}
		return item.(map[string]any), filled
	}
	return nil, nil
}

func (c *contract) judgeParameters(s *schemas, item, op map[string]any, path map[string]string, req *http.Request) {
	query := req.URL.Query()
	for _, raw := range append(listOf(item["parameters"]), listOf(op["parameters"])...) {
		p := c.deref(raw)
		name, schema := p["name"].(string), mapOf(p["schema"])
		var values []string
		switch p["in"] {
		case "path":
			values = []string{path[name]}
		case "header":
			values = req.Header.Values(name)
		case "query":
			values = query[name]
			query.Del(name)
		}
		if p["required"] == true && len(values) == 0 {
			s.fault("parameter %s is missing", name)
		}
		if c.deref(schema)["type"] == "array" {
			schema = mapOf(c.deref(schema)["items"])
		} else if len(values) > 1 {
			s.fault("parameter %s comes more than once", name)
		}
		for _, value := range values {
			s.checkText(value, schema, name)
		}
	}
	for name := range query {
		s.fault("parameter %s is not described", name)
	}
}

func (c *contract) judgeBody(s *schemas, op map[string]any, mediaType string, body []byte) {
	wants := c.deref(op["requestBody"])
	if len(body) == 0 {
		if wants["required"] == true {
			s.fault("a body is required")
		}
		return
	}
	if wants == nil {
		if strings.TrimSpace(string(body)) != "{}" { // POST routes without fields take an empty object
			s.fault("no body is described")
		}
		return
	}
	s.checkContent(mapOf(wants["content"]), mediaType, body)
}

func (s *schemas) checkContent(content map[string]any, mediaType string, body []byte) {
	if len(content) == 0 {
		if len(body) > 0 {
			s.fault("a body came, and none is described")
		}
		return
	}
	kind, _, _ := mime.ParseMediaType(mediaType)
	described, ok := content[kind]
	if !ok {
		s.fault("media type %s is not described", kind)
		return
	}
	if !strings.HasSuffix(kind, "json") || kind == "application/x-ndjson" {
		return
	}
	d := json.NewDecoder(strings.NewReader(string(body)))
	d.UseNumber()
	var value any
	if err := d.Decode(&value); err != nil {
		s.fault("it is no JSON: %v", err)
		return
	}
	s.check(value, mapOf(mapOf(described)["schema"]), "")
}

func (c *contract) resolve(ref string) map[string]any { return mapOf(resolve(c.doc, ref)) }

// deref follows a reference; what stands beside it adds to it.
func (c *contract) deref(v any) map[string]any {
	m := mapOf(v)
	ref, is := m["$ref"].(string)
	if !is {
		return m
	}
	return c.deref(c.resolve(ref))
}

func mapOf(v any) map[string]any {
	m, _ := v.(map[string]any)
	return m
}

func listOf(v any) []any {
	l, _ := v.([]any)
	return l
}

func TestTheContractFindsFault(t *testing.T) {
	t.Parallel()
	c, err := theContract()
	require.NoError(t, err)
	const fine = `{"action_id":"a1","state":"queued","seq":1,"deduplicated":false}`
	for name, e := range map[string]struct {
		query, body string
		status      int
		answer      string
		wrong       bool
	}{
		"nothing":                  {"", `{"machine_id":"m1","type":"job"}`, 201, fine, false},
		"a field that is none":     {"", `{"machine_id":"m1","type":"job","x":1}`, 201, fine, true},
		"a field that is missing":  {"", `{"type":"job"}`, 201, fine, true},
		"a number out of range":    {"", `{"machine_id":"m1","type":"job","priority":10}`, 201, fine, true},
		"a time that is none":      {"", `{"machine_id":"m1","type":"job","expires_at":"soon"}`, 201, fine, true},
		"an id that is none":       {"", `{"machine_id":"-","type":"job"}`, 201, fine, true},
		"an array":                 {"", `[{"machine_id":"m1","type":"job"}]`, 201, `[` + fine + `]`, false},
		"an empty array":           {"", `[]`, 201, `[]`, true},
		"a parameter that is none": {"?x=1", `{"machine_id":"m1","type":"job"}`, 201, fine, true},
		"an answer without seq":    {"", `{"machine_id":"m1","type":"job"}`, 201, `{"action_id":"a1","state":"queued","deduplicated":false}`, true},
		"an answer with more":      {"", `{"machine_id":"m1","type":"job"}`, 201, strings.Replace(fine, `{`, `{"secret":1,`, 1), true},
		"a state that is none":     {"", `{"machine_id":"m1","type":"job"}`, 201, strings.Replace(fine, "queued", "waiting", 1), true},
		"a status nobody was told": {"", `{"machine_id":"m1","type":"job"}`, 202, fine, true},
	} {
		req, err := http.NewRequestWithContext(t.Context(), "POST", "http://h/v1/actions"+e.query, nil)
		require.NoError(t, err)
		req.Header.Set("Content-Type", "application/json")
		wrong := c.judge(req, []byte(e.body), answer{e.status, http.Header{"Content-Type": {"application/json"}}, []byte(e.answer)})
		require.Equal(t, e.wrong, len(wrong) > 0, "%s: %v", name, wrong)
	}
}
