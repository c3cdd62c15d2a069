package main

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"strings"

	"golang.org/x/term"
)

// terminal is where a command reads and writes: data on out, talk on err.
type terminal struct {
	in       io.Reader
	out, err io.Writer
	environ  []string
	name     string // under which we were called: pushctl or pushd
}

// getenv is os.Getenv over what the terminal was given.
func (t *terminal) getenv(name string) string {
	for _, kv := range t.environ {
		if value, found := strings.CutPrefix(kv, name+"="); found {
			return value
		}
	}
	return ""
}

// say tells a person something that is not the command's data.
func (t *terminal) say(format string, args ...any) {
	fmt.Fprintf(t.err, format+"\n", args...)
}

// colour tells whether w may be given colours: a terminal, and NO_COLOR unset.
func (t *terminal) colour(w io.Writer) bool {
	return isTerminal(w) && t.getenv("NO_COLOR") == "" && t.getenv("TERM") != "dumb"
}

// confirm asks a yes-or-no question, unless --yes has answered it. Off a terminal
// nobody could.
func (t *terminal) confirm(question string, yes bool) error {
	if yes {
		return nil
	}
	if !isTerminal(t.in) {
		return usage("%s Nobody is there to ask: add --yes to do it, or --dry-run to see only the number", question)
	}
	fmt.Fprintf(t.err, "%s [y/N] ", question)
	answer, _ := bufio.NewReader(t.in).ReadString('\n')
	if a := strings.ToLower(strings.TrimSpace(answer)); a != "y" && a != "yes" {
		return fmt.Errorf("nothing was done")
	}
	return nil
}

func isTerminal(stream any) bool {
	f, ok := stream.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}
