package webhook

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"text/template"
	"text/template/parse"

	"go.yaml.in/yaml/v3"
)

// Bounds of what a template makes.
const (
	maxLeaf     = 256 << 10
	maxRendered = 8 << 20 // of one action; the server's own limit is lower
)

// RenderError says which leaf of a route's action could not be filled.
type RenderError struct{ Leaf, Why string }

func (e *RenderError) Error() string { return fmt.Sprintf("webhook: %s: %s", e.Leaf, e.Why) }

// tree is a JSON value whose structure the route has fixed: only its leaves are
// filled, and what fills one is one string, or with $from one value.
type tree interface {
	render(m *Message, at string, out *bytes.Buffer) error
}

type (
	fixed  []byte // literal JSON
	filled struct{ t *template.Template }
	taken  struct {
		path     path
		fallback json.RawMessage // nil: none
	}
	list   []tree
	object struct {
		names  []string
		values []tree
	}
)

func (f fixed) render(_ *Message, _ string, out *bytes.Buffer) error {
	_, err := out.Write(f)
	return err
}

func (l list) render(m *Message, at string, out *bytes.Buffer) error {
	out.WriteByte('[')
	for i, item := range l {
		if i > 0 {
			out.WriteByte(',')
		}
		if err := item.render(m, fmt.Sprintf("%s[%d]", at, i), out); err != nil {
			return err
		}
	}
	out.WriteByte(']')
	return nil
}

func (o *object) render(m *Message, at string, out *bytes.Buffer) error {
	out.WriteByte('{')
	for i, name := range o.names {
		if i > 0 {
			out.WriteByte(',')
		}
		key, err := marshal(name)
		if err != nil {
			return err
		}
		out.Write(key)
		out.WriteByte(':')
		if err := o.values[i].render(m, at+"."+name, out); err != nil {
			return err
		}
	}
	out.WriteByte('}')
	return nil
}

func (f filled) render(m *Message, at string, out *bytes.Buffer) error {
	s, err := f.text(m, at)
	if err != nil {
		return err
	}
	raw, err := marshal(s)
	if err != nil {
		return err
	}
	if out.Len()+len(raw) > maxRendered {
		return &RenderError{at, "the action is too large"}
	}
	_, err = out.Write(raw)
	return err
}

func (f filled) text(m *Message, at string) (string, error) {
	var w leafWriter
	if err := f.t.Execute(&w, m.data); err != nil {
		return "", &RenderError{at, whyOf(err)}
	}
	return strings.ToValidUTF8(w.String(), "\uFFFD"), nil
}

// whyOf is what a template's error says behind the place it names.
func whyOf(err error) string {
	if errors.Is(err, errLong) {
		return errLong.Error()
	}
	var exec template.ExecError
	if errors.As(err, &exec) {
		err = exec.Err
	}
	why := err.Error()
	if i := strings.LastIndex(why, ">: "); i >= 0 {
		why = why[i+3:]
	}
	if len(why) > 200 {
		why = strings.ToValidUTF8(why[:200], "")
	}
	return why
}

func (f taken) render(m *Message, at string, out *bytes.Buffer) error {
	raw, ok := m.verbatim(f.path)
	if !ok {
		if f.fallback == nil {
			return &RenderError{at, "there is nothing at " + strings.Join(f.path, ".")}
		}
		raw = f.fallback
	}
	if out.Len()+len(raw) > maxRendered {
		return &RenderError{at, "the action is too large"}
	}
	return json.Compact(out, raw)
}

var errLong = fmt.Errorf("it is longer than %d bytes", maxLeaf)

// leafWriter bounds what one leaf may become.
type leafWriter struct{ strings.Builder }

func (w *leafWriter) Write(p []byte) (int, error) {
	if w.Len()+len(p) > maxLeaf {
		return 0, errLong
	}
	return w.Builder.Write(p)
}

// compile makes a tree of YAML.
func compile(node *yaml.Node, depth int) (tree, error) {
	if depth > maxDepth {
		return nil, lineError(node, "is too deep")
	}
	switch node.Kind {
	case yaml.ScalarNode:
		return compileScalar(node)
	case yaml.SequenceNode:
		l := list{}
		for _, item := range node.Content {
			inner, err := compile(item, depth+1)
			if err != nil {
				return nil, err
			}
			l = append(l, inner)
		}
		return l, nil
	case yaml.MappingNode:
		return compileObject(node, depth)
	}
	return nil, lineError(node, "must be plain YAML, without anchors")
}

func compileObject(node *yaml.Node, depth int) (tree, error) {
	if len(node.Content) > 0 && strings.HasPrefix(node.Content[0].Value, "$") {
		return compileTaken(node)
	}
	o := &object{}
	for i := 0; i+1 < len(node.Content); i += 2 {
		name := node.Content[i].Value
		if slices.Contains(o.names, name) {
			return nil, lineError(node.Content[i], "%s is there twice", name)
		}
		inner, err := compile(node.Content[i+1], depth+1)
		if err != nil {
			return nil, err
		}
		o.names, o.values = append(o.names, name), append(o.values, inner)
	}
	return o, nil
}

// compileTaken reads {$from: PATH, $default: VALUE}.
func compileTaken(node *yaml.Node) (tree, error) {
	var f taken
	for i := 0; i+1 < len(node.Content); i += 2 {
		key, value := node.Content[i], node.Content[i+1]
		switch key.Value {
		case "$from":
			p, ok := parsePath(value.Value)
			if !ok {
				return nil, lineError(value, "$from %q is no path", value.Value)
			}
			f.path = p
		case "$default":
			raw, err := literal(value)
			if err != nil {
				return nil, err
			}
			f.fallback = json.RawMessage(raw)
		default:
			return nil, lineError(key, "%s stands beside $from; only $default may", key.Value)
		}
	}
	if f.path == nil {
		return nil, lineError(node, "$default stands without $from")
	}
	return f, nil
}

func compileScalar(node *yaml.Node) (tree, error) {
	if node.Tag != "!!str" || !strings.Contains(node.Value, "{{") {
		return literal(node)
	}
	t, err := template.New("leaf").Option("missingkey=error").Funcs(functions).Parse(node.Value)
	if err != nil {
		return nil, lineError(node, "%s", strings.TrimPrefix(err.Error(), "template: "))
	}
	if len(t.Templates()) > 1 {
		return nil, lineError(node, "define and block are not for leaves")
	}
	if err := tame(t.Root); err != nil {
		return nil, lineError(node, "%v", err)
	}
	return filled{t}, nil
}

// literal is a YAML value as JSON.
func literal(node *yaml.Node) (fixed, error) {
	var value any
	if err := node.Decode(&value); err != nil {
		return nil, lineError(node, "cannot be read")
	}
	if _, is := value.(string); !is && node.Tag == "!!timestamp" {
		value = node.Value
	}
	raw, err := marshal(value)
	if err != nil {
		return nil, lineError(node, "is no JSON value")
	}
	return raw, nil
}

// tame refuses what would make a template's work more than linear in its input:
// loops, calls of other templates, and formats that a stranger's text may be.
func tame(node parse.Node) error {
	var wrong error
	walk(node, func(n parse.Node) {
		switch n := n.(type) {
		case *parse.RangeNode:
			wrong = errors.New("range is not for leaves; use join")
		case *parse.TemplateNode:
			wrong = errors.New("template is not for leaves")
		case *parse.IdentifierNode:
			if n.Ident == "printf" || n.Ident == "call" {
				wrong = fmt.Errorf("%s is not for leaves", n.Ident)
			}
		}
	})
	return wrong
}

func walk(node parse.Node, visit func(parse.Node)) {
	visit(node)
	switch n := node.(type) {
	case *parse.ListNode:
		if n == nil {
			return
		}
		for _, inner := range n.Nodes {
			walk(inner, visit)
		}
	case *parse.ActionNode:
		walkPipe(n.Pipe, visit)
	case *parse.IfNode:
		walkBranch(&n.BranchNode, visit)
	case *parse.WithNode:
		walkBranch(&n.BranchNode, visit)
	case *parse.PipeNode:
		walkPipe(n, visit)
	case *parse.ChainNode:
		walk(n.Node, visit)
	}
}

func walkBranch(n *parse.BranchNode, visit func(parse.Node)) {
	walkPipe(n.Pipe, visit)
	walk(n.List, visit)
	if n.ElseList != nil {
		walk(n.ElseList, visit)
	}
}

func walkPipe(n *parse.PipeNode, visit func(parse.Node)) {
	if n == nil {
		return
	}
	for _, command := range n.Cmds {
		for _, arg := range command.Args {
			walk(arg, visit)
		}
	}
}

// marshal writes JSON and leaves <, > and & as they are.
func marshal(v any) ([]byte, error) {
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(buf.Bytes(), []byte("\n")), nil
}
