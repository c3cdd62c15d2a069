package storetest

import (
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"pushd/ackstore"
)

// Fault is a way to break a store's promise at the port.
type Fault struct {
	Name string
	// Caught is the check of Run that must notice it, as "suite/sentence".
	Caught string
	// Drives says that Simulate must notice it as well.
	Drives bool

	plant func(*mutant)
}

// Faults shows that the suite has teeth: each seeded fault, planted in the
// driver that open gives, is caught by a named check of Run, and by Simulate
// where its steps reach it; the same checks pass without the fault.
func Faults(t *testing.T, open Factory) {
	for _, f := range SeededFaults() {
		t.Run(f.Name, func(t *testing.T) {
			c := checkNamed(t, f.Caught)
			run := func(open Factory) (bool, string) {
				return record(t, func(rec *recorder) { c.run(newRig(rec, rec, open)) })
			}
			failed, said := run(open)
			require.False(t, failed, "%q fails without the fault: %s", f.Caught, said)
			failed, _ = run(f.in(open))
			require.True(t, failed, "%q does not notice it", f.Caught)
			if f.Drives {
				require.True(t, simulationCatches(t, f.in(open)), "Simulate does not notice it")
			}
		})
	}
}

// in plants the fault in every store that open gives.
func (f Fault) in(open Factory) Factory {
	var used []string
	return func(t testing.TB, dir string, now func() time.Time, l ackstore.Listener) ackstore.Store {
		reopened := slices.Contains(used, dir)
		used = append(used, dir)
		return Mutant(open(t, dir, now, l), f, reopened)
	}
}

// checkNamed finds a check of Run.
func checkNamed(t *testing.T, name string) check {
	t.Helper()
	for _, s := range suites() {
		for _, c := range s.checks {
			if s.name+"/"+c.name == name {
				return c
			}
		}
	}
	require.Fail(t, "no such check", name)
	return check{}
}

// simulationCatches runs Simulate on a recorder, from the same draws each time: a
// fault is not to be missed now and then. A failure here is what is wanted: it is
// not made smaller, nor kept in a file.
func simulationCatches(t *testing.T, open Factory) bool {
	t.Helper()
	checks := 400
	if testing.Short() {
		checks *= 5 // of which rapid then takes a fifth
	}
	for name, value := range map[string]string{
		"rapid.seed": "1", "rapid.shrinktime": "0s", "rapid.nofailfile": "true", "rapid.checks": strconv.Itoa(checks),
	} {
		set(t, name, value)
	}
	failed, _ := record(t, func(rec *recorder) {
		rapid.Check(rec, func(rt *rapid.T) { simulate(rec, rt, open, map[[2]int]int{}) })
	})
	return failed
}
