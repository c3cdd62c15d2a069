package main_test

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"pushd/server/api"
)

// example is the block of code of one language in docs/agents.md.
func example(t *testing.T, language string) string {
	t.Helper()
	_, rest, found := strings.Cut(read(t, "docs/agents.md"), "```"+language+"\n")
	require.True(t, found)
	code, _, found := strings.Cut(rest, "\n```\n")
	require.True(t, found)
	return code + "\n"
}

// The small agents of the documentation do their work, and none of it twice.
func TestTheDocumentsAgents(t *testing.T) {
	t.Parallel()
	for language, c := range map[string]struct {
		file string
		line []string
	}{
		"go":         {"agent.go", []string{"go", "run"}},
		"python":     {"agent.py", []string{"python3"}},
		"powershell": {"agent.ps1", []string{"pwsh", "-NoProfile", "-File"}},
		"csharp":     {"agent.cs", csharp()},
	} {
		t.Run(language, func(t *testing.T) {
			t.Parallel()
			if _, err := exec.LookPath(c.line[0]); err != nil {
				t.Skip(c.line[0] + " is not installed")
			}
			d := serve(t, t.TempDir())
			path := filepath.Join(t.TempDir(), c.file)
			require.NoError(t, os.WriteFile(path, []byte(example(t, language)), 0o600))
			program := built(t, c.line, path)
			cmd := exec.Command(program[0], append(program[1:], d.base, "m1")...)
			var log logbook
			cmd.Stdout, cmd.Stderr = &log, &log
			require.NoError(t, cmd.Start())
			t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
			for i := range 5 {
				id, payload := fmt.Sprintf("a%d", i), fmt.Sprintf(`{"n":%d,"s":"ä\n","list":[1],"an é":[true,null,{}]}`, i)
				_, err := d.client().Push(t.Context(), api.Push{ActionID: id, MachineID: "m1", Type: "t", Payload: json.RawMessage(payload)})
				require.NoError(t, err)
				r, err := d.client().Action(t.Context(), id, patience)
				require.NoError(t, err)
				require.Equal(t, "done", r.State, "%+v\n%s", r, log.String())
				require.JSONEq(t, payload, string(r.Result))
				require.Equal(t, 1, r.Deliveries)
			}
		})
	}
}

// csharp is the compiler that there is: .NET's own, or Mono's.
func csharp() []string {
	if _, err := exec.LookPath("dotnet"); err == nil {
		return []string{"dotnet"}
	}
	return []string{"mcs", "-warnaserror", "-r:System.Net.Http.dll", "-r:System.Runtime.Serialization.dll", "-r:System.Xml.dll", "-r:System.Xml.Linq.dll"}
}

// built is the command line that runs an example. What its tool would run as a
// child, which stays when the tool is killed, is built first.
func built(t *testing.T, tool []string, path string) []string {
	t.Helper()
	var line, program []string
	folder := filepath.Dir(path)
	switch made := filepath.Join(folder, "agent"); tool[0] {
	case "go":
		line, program = []string{"go", "build", "-o", made, path}, []string{made}
	case "mcs":
		line, program = append(tool, "-out:"+made, path), []string{"mono", made}
	case "dotnet":
		project := filepath.Join(folder, "agent.csproj")
		require.NoError(t, os.WriteFile(project, []byte(csharpProject), 0o600))
		line, program = []string{"dotnet", "build", "-o", folder, project}, []string{"dotnet", made + ".dll"}
	default:
		return append(slices.Clone(tool), path)
	}
	build := exec.Command(line[0], line[1:]...)
	build.Dir = root
	out, err := build.CombinedOutput()
	require.NoError(t, err, "%s", out)
	return program
}

// csharpProject is what `dotnet new console` makes, for the framework there is.
const csharpProject = `<Project Sdk="Microsoft.NET.Sdk">
  <PropertyGroup>
    <OutputType>Exe</OutputType>
    <TargetFramework>net$(BundledNETCoreAppTargetFrameworkVersion)</TargetFramework>
  </PropertyGroup>
</Project>
`

// The documentation names every key and every window of the settings file.
func TestTheDocumentsAgentSettings(t *testing.T) {
	t.Parallel()
	source := read(t, "agentexec/setup/file.go")
	doc := read(t, "docs/agents.md")
	for line := range strings.SplitSeq(source, "\n") {
		_, tag, found := strings.Cut(line, "`yaml:\"")
		if !found {
			continue
		}
		name, _, _ := strings.Cut(tag, `"`)
		require.Regexp(t, "[`.{ ]"+name+"[`:,]", doc, "docs/agents.md says nothing of %s", name)
	}
}
