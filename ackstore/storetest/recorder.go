package storetest

import (
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"
)

// recorder stands in for a test: what fails on it is noted, and fails nothing.
type recorder struct {
	testing.TB // of the test that asks; only Name and TempDir reach it

	mu       sync.Mutex
	failed   bool
	said     []string
	cleanups []func()
}

// record runs a check and tells whether it failed, and with what words.
func record(host testing.TB, run func(*recorder)) (failed bool, said string) {
	rec := &recorder{TB: host}
	gone := make(chan struct{})
	go func() { // FailNow ends the goroutine that it is called on
		defer close(gone)
		defer rec.finish()
		defer func() {
			if p := recover(); p != nil {
				rec.Errorf("panic: %v", p)
			}
		}()
		run(rec)
	}()
	<-gone
	return rec.Failed(), strings.Join(rec.said, "\n")
}

// finish runs what was to be cleaned up, the last first, though one may fail.
func (r *recorder) finish() {
	r.mu.Lock()
	n := len(r.cleanups)
	if n == 0 {
		r.mu.Unlock()
		return
	}
	last := r.cleanups[n-1]
	r.cleanups = r.cleanups[:n-1]
	r.mu.Unlock()
	defer r.finish()
	last()
}

func (r *recorder) note(text string, fails bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.failed = r.failed || fails
	if fails && text != "" {
		r.said = append(r.said, text)
	}
}

func (r *recorder) Helper()                   {}
func (r *recorder) Log(...any)                {}
func (r *recorder) Logf(string, ...any)       {}
func (r *recorder) Error(args ...any)         { r.note(fmt.Sprint(args...), true) }
func (r *recorder) Errorf(f string, a ...any) { r.note(fmt.Sprintf(f, a...), true) }
func (r *recorder) Fail()                     { r.note("", true) }
func (r *recorder) FailNow()                  { r.Fail(); runtime.Goexit() }
func (r *recorder) Fatal(args ...any)         { r.Error(args...); r.FailNow() }
func (r *recorder) Fatalf(f string, a ...any) { r.Errorf(f, a...); r.FailNow() }
func (r *recorder) Skip(...any)               { runtime.Goexit() }
func (r *recorder) Skipf(string, ...any)      { runtime.Goexit() }
func (r *recorder) SkipNow()                  { runtime.Goexit() }
func (r *recorder) Skipped() bool             { return false }

func (r *recorder) Failed() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.failed
}

func (r *recorder) Cleanup(f func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.cleanups = append(r.cleanups, f)
}
