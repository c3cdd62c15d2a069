package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"
)

func main() { os.Exit(run()) }

func run() int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	// The first signal asks; the second one finds its default action again and ends us.
	context.AfterFunc(ctx, stop)
	term := &terminal{in: os.Stdin, out: os.Stdout, err: os.Stderr, environ: os.Environ()}
	return execute(ctx, term, os.Args[1:])
}
