package boltstore_test

import (
	"testing"
	"time"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"pushd/ackstore"
	"pushd/ackstore/boltstore"
	"pushd/ackstore/storetest"
)

// open is the driver as the suite sees it.
func open(t testing.TB, dir string, now func() time.Time, l ackstore.Listener) ackstore.Store {
	t.Helper()
	s, err := boltstore.Open(boltstore.Config{Dir: dir, Now: now, Listener: l, Logger: zerolog.Nop()})
	require.NoError(t, err)
	return s
}

func TestStore(t *testing.T) { storetest.Run(t, open) }

func TestSimulation(t *testing.T) { storetest.Simulate(t, open) }

func TestFaults(t *testing.T) { storetest.Faults(t, open) }

func BenchmarkStore(b *testing.B) { storetest.Bench(b, open) }
