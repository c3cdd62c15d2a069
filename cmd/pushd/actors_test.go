package main

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

func TestPartsStopInReverseOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var ended []string
		parts := &actors{}
		for _, name := range []string{"store", "watchdog", "server"} {
			parts.add(name, func(ctx context.Context) error {
				<-ctx.Done()
				time.Sleep(time.Second) // the others must wait for it
				ended = append(ended, name)
				return nil
			})
		}
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Minute, cancel)
		require.NoError(t, parts.run(ctx))
		require.Equal(t, []string{"server", "watchdog", "store"}, ended)
	})
}

func TestTheFirstPartToEndStopsAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		broken := errors.New("broken")
		stopped := false
		parts := &actors{}
		parts.add("store", func(ctx context.Context) error {
			<-ctx.Done()
			stopped = true
			return errors.New("a consequence")
		})
		parts.add("server", func(context.Context) error {
			time.Sleep(time.Second)
			return broken
		})
		require.ErrorIs(t, parts.run(t.Context()), broken)
		require.True(t, stopped)
	})
}
