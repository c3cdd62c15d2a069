package proc

import (
	"os"
	"path/filepath"
	"strings"
)

// sameName compares names of variables.
func sameName(a, b string) bool { return strings.EqualFold(a, b) }

// unshim resolves a batch file to the program behind it.
func unshim(path string, env []string) (argv []string, message string) {
	switch strings.ToLower(filepath.Ext(path)) {
	case ".cmd", ".bat":
	case ".ps1":
		return nil, path + " is a PowerShell script: use a handler of kind powershell"
	default:
		return []string{path}, ""
	}
	raw, err := os.ReadFile(path)
	if err != nil {
		return nil, err.Error()
	}
	argv, ok := parseShim(string(raw), filepath.Dir(path), func(p string) bool {
		info, err := os.Stat(p)
		return err == nil && !info.IsDir()
	})
	if !ok {
		return nil, path + " is a batch file, and cmd.exe would read its arguments as commands; name the program itself"
	}
	if argv[0] == "node" {
		node, code, _ := Find("node", "", env)
		if code != "" {
			return nil, path + " needs node, which is not found"
		}
		argv[0] = node
	}
	return argv, ""
}
