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
	"pushd/server/alert"
	"pushd/server/webhook"
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
			s.reload(ctx)
			s.sys.ready()
		}
	}
}

// wanted is what the sources say now, all of it read and checked.
type wanted struct {
	merged         *settings.Loaded
	changed, stays []settings.Change
	sections       []string // of the document that are otherwise
	set            *webhook.Set
	alerts         *alert.Config
}

// reload takes what changed and can be taken, and says what cannot. Settings with
// a mistake in them change nothing.
func (s *service) reload(ctx context.Context) {
	if s.book.load == nil {
		return
	}
	w, err := s.readAgain()
	if err == nil {
		err = s.adopt(ctx, w)
	}
	if err != nil {
		s.log.Error().Err(err).Msg("the settings were not reloaded; those in force stay")
		return
	}
	for _, section := range w.sections {
		s.log.Info().Str("setting", section).Msg("reloaded")
	}
	for _, c := range w.changed {
		s.log.Info().Str("setting", c.Name).Str("from", c.From).Str("to", c.To).Msg("reloaded")
	}
	for _, c := range w.stays {
		s.log.Warn().Str("setting", c.Name).Str("in_force", c.From).Str("wanted", c.To).Msg("needs a restart")
	}
	s.log.Info().Int("changed", len(w.changed)+len(w.sections)).Int("need_a_restart", len(w.stays)).Msg("settings were read again")
}

// readAgain reads and checks everything, and changes nothing.
func (s *service) readAgain() (*wanted, error) {
	next, err := s.book.load()
	if err != nil {
		return nil, err
	}
	w, now := &wanted{}, s.book.now.Load()
	if w.merged, w.changed, w.stays, err = now.Adopt(next); err != nil {
		return nil, err
	}
	w.sections = otherSections(now.Document, next.Document)
	w.set, w.alerts, err = readOutside(next.Document)
	return w, err
}

// adopt puts in force what is wanted. The routes are first: theirs is the one step
// that can fail, where the store cannot write.
func (s *service) adopt(ctx context.Context, w *wanted) error {
	if err := s.server.AdoptRoutes(ctx, w.set); err != nil {
		return err
	}
	if err := s.outside.bureau.Adopt(ctx, *w.alerts); err != nil {
		return err // the service ends
	}
	s.book.now.Store(w.merged)
	s.server.Adopt(limitsOf(w.merged), defaultsOf(w.merged))
	setLevel(w.merged.Log.Level)
	if renewed := rekeyed(s.outside.set, w.set); len(renewed) > 0 {
		s.log.Info().Strs("routes", renewed).Msg("these routes have other secrets now")
	}
	s.outside.set = w.set
	warnOfOpenRoutes(w.set, s.log)
	return nil
}

// otherSections names the sections for the world outside that two settings files
// have otherwise.
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
