package server_test

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"

	"pushd/server"
)

// description reads GET /openapi.yaml.
func description(t *testing.T, r *rig) map[string]any {
	t.Helper()
	a := r.want(200, "GET", "/openapi.yaml", nil, nil)
	var doc map[string]any
	require.NoError(t, yaml.Unmarshal(a.body, &doc))
	return doc
}

// operations lists what is described as "METHOD /path/:id".
func operations(doc map[string]any) []string {
	var all []string
	for path, item := range doc["paths"].(map[string]any) {
		path = regexp.MustCompile(`\{(\w+)\}`).ReplaceAllString(path, ":$1")
		for method := range item.(map[string]any) {
			if method != "parameters" {
				all = append(all, strings.ToUpper(method)+" "+path)
			}
		}
	}
	slices.Sort(all)
	return all
}

func TestOpenAPIDescribesEachRouteAndNoOther(t *testing.T) {
	t.Parallel()
	doc := description(t, start(t, options{}))
	routes := slices.DeleteFunc(server.RouteList(), func(r string) bool { return strings.HasPrefix(r, "HEAD ") })
	slices.Sort(routes)
	require.Equal(t, routes, operations(doc))
}

func TestOpenAPIRefersToNothingThatIsMissing(t *testing.T) {
	t.Parallel()
	doc := description(t, start(t, options{}))
	seen := map[string]bool{}
	var walk func(at string, v any)
	walk = func(at string, v any) {
		switch v := v.(type) {
		case map[string]any:
			if ref, is := v["$ref"].(string); is {
				require.NotNil(t, resolve(doc, ref), "%s refers to %s", at, ref)
				seen[ref] = true
			}
			for key, in := range v {
				walk(at+"/"+key, in)
			}
			if id, is := v["operationId"].(string); is {
				require.False(t, seen["op "+id], "operationId %s comes twice", id)
				seen["op "+id] = true
				require.NotEmpty(t, v["summary"], at)
				require.NotEmpty(t, v["responses"], at)
			}
		case []any:
			for i, in := range v {
				walk(fmt.Sprintf("%s/%d", at, i), in)
			}
		}
	}
	walk("", doc)
	for kind, things := range doc["components"].(map[string]any) {
		for name := range things.(map[string]any) {
			if kind != "securitySchemes" {
				require.True(t, seen["#/components/"+kind+"/"+name], "nothing uses %s %s", kind, name)
			}
		}
	}
}

func resolve(doc map[string]any, ref string) any {
	var at any = doc
	for part := range strings.SplitSeq(strings.TrimPrefix(ref, "#/"), "/") {
		in, ok := at.(map[string]any)
		if !ok {
			return nil
		}
		at = in[part]
	}
	return at
}
