package proc

import (
	"regexp"
	"strings"
)

// target is what the shims of npm and its like start: a path below their own
// folder, %~dp0 or %dp0%.
var target = regexp.MustCompile(`(?i)"%(?:~dp0|dp0%)\\?([^"%]+\.(?:exe|js|cjs|mjs))"`)

// parseShim finds what a batch file made by npm starts: a program of its own, or
// a script for node. exists tells whether a file is there.
func parseShim(text, dir string, exists func(path string) bool) (argv []string, ok bool) {
	var script string
	for _, found := range target.FindAllStringSubmatch(text, -1) {
		name := strings.ReplaceAll(found[1], "/", `\`)
		if strings.EqualFold(name, "node.exe") {
			continue
		}
		path := strings.TrimRight(dir, `\/`) + `\` + strings.TrimLeft(name, `\`)
		if !exists(path) {
			continue
		}
		if strings.HasSuffix(strings.ToLower(path), ".exe") {
			return []string{path}, true
		}
		script = path
	}
	if script == "" {
		return nil, false
	}
	node := strings.TrimRight(dir, `\/`) + `\node.exe`
	if !exists(node) {
		node = "node"
	}
	return []string{node, script}, true
}
