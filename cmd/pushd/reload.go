package main

import (
	"context"
	"io"
	"os"
	"os/signal"
	"reflect"
	"sync/atomic"
	"syscall"

	"github.com/rs/zerolog"
	"go.yaml.in/yaml/v3"

	"pushd/ackstore"
	"pushd/cmd/pushd/settings"
)

// book holds the settings in force. All that decides by them asks anew each time.
type book struct {
	now  atomic.Pointer[settings.Loaded]
	load func() (*settings.Loaded, error) // the same sources again; nil: nothing reloads
}

func newBook(set *settings.Loaded) *book {
	b := &book{}
	b.now.Store(set)
	return b
}

// rules are those in force.
func (b *book) rules() ackstore.Rules { return b.now.Load().Rules() }

// runReloads reads the settings again at each SIGHUP until ctx ends. Where there
// is no such signal it only waits.
func (s *service) runReloads(ctx context.Context) error {
	hup := make(chan os.Signal, 1)
	signal.Notify(hup, syscall.SIGHUP)
	defer signal.Stop(hup)
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-hup:
			s.sys.reloading()
			s.reload()
			s.sys.ready()
		}
	}
}

// reload takes what changed and can be taken, and says what cannot. Settings with
// a mistake in them change nothing.
func (s *service) reload() {
	if s.book.load == nil {
		return
	}
	next, err := s.book.load()
	if err != nil {
		s.log.Error().Err(err).Msg("the settings were not reloaded; those in force stay")
		return
	}
	merged, changed, stays, err := s.book.now.Load().Adopt(next)
	if err != nil {
		s.log.Error().Err(err).Msg("the settings were not reloaded; those in force stay")
		return
	}
	s.book.now.Store(merged)
	s.server.Adopt(limitsOf(merged), defaultsOf(merged))
	setLevel(merged.Log.Level)
	for _, section := range otherSections(s.book.now.Load().Document, next.Document) {
		s.log.Warn().Str("setting", section).Msg("needs a restart")
	}
	for _, c := range changed {
		s.log.Info().Str("setting", c.Name).Str("from", c.From).Str("to", c.To).Msg("reloaded")
	}
	for _, c := range stays {
		s.log.Warn().Str("setting", c.Name).Str("in_force", c.From).Str("wanted", c.To).Msg("needs a restart")
	}
	s.log.Info().Int("changed", len(changed)).Int("need_a_restart", len(stays)).Msg("settings were read again")
}

// otherSections names the sections for the world outside that two settings files
// have otherwise. They are wired at the start.
func otherSections(was, is []byte) (names []string) {
	type sections struct {
		Webhooks any `yaml:"webhooks"`
		Alerts   any `yaml:"alerts"`
	}
	var a, b sections
	if yaml.Unmarshal(was, &a) != nil || yaml.Unmarshal(is, &b) != nil {
		return nil // what cannot be read has been refused before
	}
	if !reflect.DeepEqual(a.Webhooks, b.Webhooks) {
		names = append(names, "webhooks")
	}
	if !reflect.DeepEqual(a.Alerts, b.Alerts) {
		names = append(names, "alerts")
	}
	return names
}

// liveLogger is a logger whose level can be set while it is in use. It is the
// level of the process, for that one costs nothing to ask.
func liveLogger(w io.Writer, set settings.Log) zerolog.Logger {
	setLevel(set.Level)
	set.Level = zerolog.LevelTraceValue
	return logger(w, set)
}

func setLevel(text string) {
	if level, err := zerolog.ParseLevel(text); err == nil { // settings has checked it
		zerolog.SetGlobalLevel(level)
	}
}
