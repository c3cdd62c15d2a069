package proc

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

const npmShim = "@ECHO off\r\nGOTO start\r\n:find_dp0\r\nSET dp0=%~dp0\r\nEXIT /b\r\n:start\r\nSETLOCAL\r\nCALL :find_dp0\r\n\r\n" +
	"IF EXIST \"%dp0%\\node.exe\" (\r\n  SET \"_prog=%dp0%\\node.exe\"\r\n) ELSE (\r\n  SET \"_prog=node\"\r\n)\r\n\r\n" +
	"endLocal & goto #_undefined_# 2>NUL || title %COMSPEC% & \"%_prog%\"  \"%dp0%\\node_modules\\@openai\\codex\\bin\\codex.js\" %*\r\n"

const exeShim = "@ECHO off\r\n\"%dp0%\\node_modules\\@anthropic-ai\\claude-code\\bin\\claude.exe\"   %*\r\n"

func TestShims(t *testing.T) {
	script := `C:\npm\node_modules\@openai\codex\bin\codex.js`
	program := `C:\npm\node_modules\@anthropic-ai\claude-code\bin\claude.exe`
	for name, c := range map[string]struct {
		text  string
		there []string
		want  []string
	}{
		"a script for node":     {npmShim, []string{script}, []string{"node", script}},
		"a node of its own":     {npmShim, []string{script, `C:\npm\node.exe`}, []string{`C:\npm\node.exe`, script}},
		"a program":             {exeShim, []string{program}, []string{program}},
		"a program that is not": {exeShim, nil, nil},
		"any other batch file":  {"@echo off\r\nfoo.exe %*\r\n", []string{`C:\npm\foo.exe`}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			got, ok := parseShim(c.text, `C:\npm\`, func(path string) bool {
				return slices.Contains(c.there, path)
			})
			require.Equal(t, c.want != nil, ok)
			require.Equal(t, c.want, got)
		})
	}
}

func FuzzShim(f *testing.F) {
	f.Add(npmShim)
	f.Add(exeShim)
	f.Fuzz(func(t *testing.T, text string) {
		argv, ok := parseShim(text, `C:\x`, func(string) bool { return true })
		require.Equal(t, ok, len(argv) > 0)
	})
}
