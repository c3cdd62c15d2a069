package server

import (
	"context"
	"sync"
	"time"

	"pushd/ackstore"
)

// usesEvery is how often the last uses of tokens are written down: seldom, for
// nothing but an operator's eye depends on them.
const usesEvery = 5 * time.Minute

// keepUses writes the last uses of tokens to the store now and then until ctx
// ends, and then once more.
func (s *Server) keepUses(ctx context.Context) {
	tick := time.NewTicker(usesEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			s.writeUses(ctx)
		case <-ctx.Done():
			last, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
			defer cancel()
			s.writeUses(last)
			return
		}
	}
}

// writeUses writes those uses that the store does not know. No token is dropped
// or made meanwhile, so that none comes back.
func (s *Server) writeUses(ctx context.Context) {
	s.tokens.Lock()
	defer s.tokens.Unlock()
	var puts sync.WaitGroup
	lanes := make(chan struct{}, 64) // they share commits
	for _, t := range s.keys.unwritten() {
		lanes <- struct{}{}
		puts.Go(func() {
			defer func() { <-lanes }()
			if err := s.store.PutToken(ctx, t); err != nil {
				s.cfg.Logger.Debug().Err(err).Msg("a token's last use was not written; the next time may")
				return
			}
			s.keys.written(t)
		})
	}
	puts.Wait()
}

// unwritten are the tokens whose last use the store does not know, with it.
func (k *keyring) unwritten() []ackstore.Token {
	k.mu.Lock()
	defer k.mu.Unlock()
	var all []ackstore.Token
	for _, e := range k.byHash {
		if used := e.lastUse(); used.After(e.token.LastUsedAt) {
			t := e.token
			t.LastUsedAt = used
			all = append(all, t)
		}
	}
	return all
}

func (k *keyring) written(t ackstore.Token) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if e := k.byHash[t.Hash]; e != nil {
		e.token.LastUsedAt = t.LastUsedAt
	}
}

// lastUse of a token by its id; zero: none since it was made, or it is unknown.
func (k *keyring) lastUse(id string) time.Time {
	k.mu.Lock()
	defer k.mu.Unlock()
	if e := k.byID[id]; e != nil {
		return e.lastUse()
	}
	return time.Time{}
}
