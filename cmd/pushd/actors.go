package main

import "context"

// actor is one part of a running process. run blocks until ctx ends or it
// fails; when it returns, all that it started is gone.
type actor struct {
	name string
	run  func(ctx context.Context) error
}

// actors is a process: it lives as long as its parts, and each part as long as
// the process. They are stopped one after the other, in the reverse of the order
// in which they were added, so that none loses what it stands on.
type actors struct {
	list []*startedActor
}

type startedActor struct {
	actor
	stop context.CancelFunc
	done chan struct{}
	err  error
}

// add appends a part; the ones before it are there while it runs.
func (a *actors) add(name string, run func(ctx context.Context) error) {
	a.list = append(a.list, &startedActor{actor: actor{name, run}, done: make(chan struct{})})
}

// run starts all, waits until ctx ends or one of them does, and returns when all
// are gone. The error is that of the one which ended first, or else the first
// that went wrong in the stopping.
func (a *actors) run(ctx context.Context) error {
	first := make(chan *startedActor, len(a.list))
	for _, s := range a.list {
		// Not a child of ctx: what ends a part is its turn, not the signal.
		own, stop := context.WithCancel(context.WithoutCancel(ctx))
		s.stop = stop
		go func() {
			defer close(s.done)
			s.err = s.actor.run(own)
			first <- s
		}()
	}
	var failed error
	select {
	case <-ctx.Done():
	case s := <-first:
		failed = s.err
	}
	for i := len(a.list) - 1; i >= 0; i-- {
		s := a.list[i]
		s.stop()
		<-s.done
		if failed == nil {
			failed = s.err
		}
	}
	return failed
}
