package stream_test

import (
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"pushd/stream"
)

func woken(ch <-chan struct{}) bool {
	select {
	case <-ch:
		return true
	default:
		return false
	}
}

func TestWakeReachesAllOfAMachineAndNobodyElse(t *testing.T) {
	n := stream.NewNotifier()
	one, stopOne := n.Subscribe("m1")
	two, stopTwo := n.Subscribe("m1")
	other, stopOther := n.Subscribe("m2")
	n.Wake("m1")
	n.Wake("m1") // nobody has taken the first: it does not block, and is one
	require.True(t, woken(one))
	require.False(t, woken(one))
	require.True(t, woken(two))
	require.False(t, woken(other))
	stopOne()
	stopOne()
	n.Wake("m1")
	require.False(t, woken(one))
	require.True(t, woken(two))
	stopTwo()
	stopOther()
	n.Wake("m1")
	n.Wake("unknown")
}

func TestNotifierStandsConcurrentUse(t *testing.T) {
	n := stream.NewNotifier()
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 200 {
				wake, stop := n.Subscribe("m1")
				n.Wake("m1")
				<-wake
				stop()
			}
		})
	}
	wg.Wait()
}

func BenchmarkWake(b *testing.B) {
	n := stream.NewNotifier()
	wake, stop := n.Subscribe("m1")
	defer stop()
	b.ReportAllocs()
	for b.Loop() {
		n.Wake("m1")
		<-wake
	}
}
