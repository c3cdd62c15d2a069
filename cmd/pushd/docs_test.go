package main_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"sort"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"pushd/ackstore"
)

const root = "../.."

func read(t *testing.T, path string) string {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(root, path))
	require.NoError(t, err)
	return string(raw)
}

func documents(t *testing.T) []string {
	t.Helper()
	docs, err := filepath.Glob(filepath.Join(root, "docs", "*.md"))
	require.NoError(t, err)
	decisions, err := filepath.Glob(filepath.Join(root, "docs", "decisions", "*.md"))
	require.NoError(t, err)
	names := []string{"README.md"}
	for _, path := range append(docs, decisions...) {
		name, err := filepath.Rel(root, path)
		require.NoError(t, err)
		names = append(names, name)
	}
	return names
}

// tableRows are the rows of the table under a heading, cell by cell.
func tableRows(t *testing.T, doc, heading string) [][]string {
	t.Helper()
	_, rest, found := strings.Cut(doc, heading)
	require.True(t, found, "no heading %q", heading)
	var rows [][]string
	for line := range strings.SplitSeq(rest, "\n") {
		switch {
		case strings.HasPrefix(line, "|"):
			var cells []string
			for cell := range strings.SplitSeq(strings.Trim(line, "|"), "|") {
				cells = append(cells, strings.TrimSpace(cell))
			}
			rows = append(rows, cells)
		case len(rows) > 0:
			return rows[2:] // without head and rule
		}
	}
	return rows[2:]
}

var inCode = regexp.MustCompile("`([^`]+)`")

func codes(cell string) []string {
	var all []string
	for _, m := range inCode.FindAllStringSubmatch(cell, -1) {
		all = append(all, m[1])
	}
	return all
}

// The layers are what docs/architecture.md says, neither more nor less.
func TestImportsAreThoseOfTheTable(t *testing.T) {
	t.Parallel()
	documented := map[string][]string{}
	for _, row := range tableRows(t, read(t, "docs/architecture.md"), "## Folders") {
		imports := codes(row[2])
		sort.Strings(imports)
		documented[codes(row[0])[0]] = imports
	}
	cmd := exec.Command("go", "list", "-f", `{{.ImportPath}}:{{join .Imports " "}}`, "./...")
	cmd.Dir = root
	out, err := cmd.Output()
	require.NoError(t, err)
	actual := map[string][]string{}
	for line := range strings.SplitSeq(strings.TrimSpace(string(out)), "\n") {
		path, imports, _ := strings.Cut(line, ":")
		ours := []string{}
		for name := range strings.FieldsSeq(imports) {
			if short, found := strings.CutPrefix(name, "pushd/"); found {
				ours = append(ours, short)
			}
		}
		sort.Strings(ours)
		if len(ours) == 0 {
			ours = nil
		}
		actual[strings.TrimPrefix(path, "pushd/")] = ours
	}
	require.Equal(t, documented, actual)
}

// The states of docs/states.md are those of the code, with what they mean.
func TestStatesAreThoseOfTheCode(t *testing.T) {
	t.Parallel()
	type fact struct {
		name                string
		settled, deadLetter bool
	}
	doc := read(t, "docs/states.md")
	var documented, coded []fact
	for _, row := range tableRows(t, doc, "## Each of them") {
		documented = append(documented, fact{codes(row[0])[0], row[1] == "yes", row[2] == "yes"})
	}
	for _, s := range ackstore.States() {
		coded = append(coded, fact{s.String(), s.Settled(), s.DeadLetter()})
	}
	require.Equal(t, coded, documented)
}

// Every direct dependency has its line, and no line is about what is not there.
func TestDependenciesHaveTheirLine(t *testing.T) {
	t.Parallel()
	var documented []string
	for _, row := range tableRows(t, read(t, "docs/dependencies.md"), "# Dependencies") {
		documented = append(documented, codes(row[0])[0])
	}
	imported := exec.Command("go", "list", "-f", `{{join .Imports "\n"}}{{"\n"}}{{join .TestImports "\n"}}{{"\n"}}{{join .XTestImports "\n"}}`, "./...")
	imported.Dir = root
	out, err := imported.Output()
	require.NoError(t, err)
	used := map[string]bool{}
	for path := range strings.FieldsSeq(string(out)) {
		if host, _, _ := strings.Cut(path, "/"); !strings.Contains(host, ".") {
			continue // of ours, or of the standard library
		}
		i := slices.IndexFunc(documented, func(m string) bool { return path == m || strings.HasPrefix(path, m+"/") })
		require.GreaterOrEqual(t, i, 0, "%s has no line in docs/dependencies.md", path)
		used[documented[i]] = true
	}
	for _, module := range documented {
		require.True(t, used[module], "%s has a line and is not imported", module)
	}
}

// So has every package that the dashboard is built with.
func TestPackagesOfTheDashboardHaveTheirLine(t *testing.T) {
	t.Parallel()
	var documented []string
	for _, row := range tableRows(t, read(t, "docs/dependencies.md"), "## The dashboard") {
		documented = append(documented, codes(row[0])[0])
	}
	var manifest struct {
		DevDependencies map[string]string `json:"devDependencies"`
	}
	require.NoError(t, json.Unmarshal([]byte(read(t, "web/package.json")), &manifest))
	require.ElementsMatch(t, slices.Collect(maps.Keys(manifest.DevDependencies)), documented)
}

// The exit statuses of docs/operating.md are those of --help.
func TestExitStatusesAreThoseOfTheHelp(t *testing.T) {
	t.Parallel()
	help, _, code := run(t, "pushctl", "--help")
	require.Equal(t, 0, code)
	_, rest, found := strings.Cut(strings.Join(strings.Fields(help), " "), "Exit codes: ")
	require.True(t, found)
	told, _, _ := strings.Cut(rest, ".")
	var documented []string
	for _, row := range tableRows(t, read(t, "docs/operating.md"), "## Exit statuses") {
		documented = append(documented, codes(row[0])[0]+" "+row[1])
	}
	require.Equal(t, strings.Split(told, ", "), documented)
}

// A link from one document to another leads somewhere.
func TestLinksLeadSomewhere(t *testing.T) {
	t.Parallel()
	link := regexp.MustCompile(`\]\(([^)#:]+)\)`)
	for _, name := range documents(t) {
		prose := fenced.ReplaceAllString(read(t, name), "")
		for _, m := range link.FindAllStringSubmatch(prose, -1) {
			require.FileExists(t, filepath.Join(root, filepath.Dir(name), m[1]), "in %s", name)
		}
	}
}

// fenced is what a document quotes: programs, in which a link is none.
var fenced = regexp.MustCompile("(?s)```.*?```")

var shellBlock = regexp.MustCompile("(?s)```sh\n(.*?)```")

// What README and docs tell people to type works, in the order in which it
// stands. The server is the test's; `make TARGET` only has to exist.
func TestCommandsOfTheDocumentsWork(t *testing.T) {
	t.Parallel()
	for _, name := range documents(t) {
		blocks := shellBlock.FindAllStringSubmatch(read(t, name), -1)
		if len(blocks) == 0 {
			continue
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := serve(t, t.TempDir())
			dir := workbench(t)
			for _, block := range blocks {
				text := strings.ReplaceAll(block[1], "http://127.0.0.1:8080", d.base)
				cmd := exec.Command("sh", "-eu", "-c", text)
				cmd.Dir = dir
				cmd.Env = append(clean(os.Environ()), "PUSHD_URL="+d.base, "PATH="+filepath.Join(dir, "bin")+":"+os.Getenv("PATH"))
				var out bytes.Buffer
				cmd.Stdout, cmd.Stderr = &out, &out
				require.NoError(t, cmd.Run(), "%s\n%s", text, out.String())
				require.NotContains(t, out.String(), `"status":4`, "%s\n%s", text, out.String())
			}
		})
	}
}

// workbench is a folder in which the commands of the documents find what they
// expect after `make build`.
func workbench(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	require.NoError(t, os.Mkdir(filepath.Join(dir, "bin"), 0o755))
	makefile, err := filepath.Abs(filepath.Join(root, "Makefile"))
	require.NoError(t, err)
	require.NoError(t, os.Symlink(filepath.Join(bin, "pushctl"), filepath.Join(dir, "bin", "pushctl")))
	for name, script := range map[string]string{
		"pushd": fmt.Sprintf("#!/bin/sh\n[ \"$1\" = serve ] || exec %s/pushd \"$@\"\n", bin),
		"make":  fmt.Sprintf("#!/bin/sh\ngrep -q \"^$1:\" %s\n", makefile),
	} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, "bin", name), []byte(script), 0o755))
	}
	return dir
}
