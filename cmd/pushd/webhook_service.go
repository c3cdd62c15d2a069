package main

import (
	"os"

	"github.com/rs/zerolog"

	"pushd/ackstore"
	"pushd/server"
	"pushd/server/alert"
	"pushd/server/webhook"
)

// outside is what a service has to do with the world beside its agents and
// clients: webhooks that come in, chains that go on, alerts that go out.
type outside struct {
	set    *webhook.Set // in force; at first of who starts, then of the reloads
	bell   *server.Bell
	bureau *alert.Bureau
}

// readOutside reads the sections webhooks and alerts of a settings file. Secrets
// come from the environment or from files.
func readOutside(file []byte) (*webhook.Set, *alert.Config, error) {
	env := webhook.Env{Getenv: os.Getenv, ReadFile: os.ReadFile}
	set, err := webhook.Load(file, env)
	if err != nil {
		return nil, nil, err
	}
	alerts, err := alert.Load(file, env)
	return set, alerts, err
}

func newOutside(file []byte, rules func() ackstore.Rules, log zerolog.Logger) (*outside, error) {
	set, alerts, err := readOutside(file)
	if err != nil {
		return nil, err
	}
	bureau := alert.New(*alerts, alert.Deps{Rules: rules, Logger: log})
	warnOfOpenRoutes(set, log)
	return &outside{set: set, bell: server.NewBell(), bureau: bureau}, nil
}

func warnOfOpenRoutes(set *webhook.Set, log zerolog.Logger) {
	for _, rt := range set.Routes {
		if rt.Source == "none" {
			log.Warn().Str("route", rt.ID).Msg("webhooks of source none are signed by nobody: whoever reaches this address may deliver")
		}
	}
}

// rekeyed are the routes of both sets whose secrets differ: they may in files that
// the settings only name.
func rekeyed(was, is *webhook.Set) (ids []string) {
	for _, rt := range is.Routes {
		if before := was.Find(rt.ID); before != nil && rt.Rekeyed(before) {
			ids = append(ids, rt.ID)
		}
	}
	return ids
}

// Changed passes on what the store says after a commit; neither of the two waits.
func (o *outside) Changed(changes []ackstore.Change) {
	o.bell.Changed(changes)
	o.bureau.Changed(changes)
}
