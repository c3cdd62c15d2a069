package main

import (
	"context"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
)

func main() { os.Exit(run()) }

func run() int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	// The first signal asks; the second one finds its default action again and ends us.
	context.AfterFunc(ctx, stop)
	term := &terminal{in: os.Stdin, out: os.Stdout, err: os.Stderr, environ: os.Environ(), name: "pushctl"}
	if strings.HasPrefix(filepath.Base(os.Args[0]), "pushd") {
		term.name = "pushd"
	}
	return execute(ctx, term, os.Args[1:])
}
