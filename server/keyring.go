package server

import (
	"context"
	"crypto/sha256"
	"sync"
	"time"

	"pushd/ackstore"
)

// keyring holds the tokens of the store in memory, so that no request waits for
// a read, and tells when one has ended. A lookup goes by the hash of what was
// presented: what a map's timing tells of a hash helps nobody to the text.
type keyring struct {
	now   func() time.Time
	ended func(ids map[string]bool) // told after each change, outside the lock

	mu     sync.Mutex
	byHash map[[32]byte]*key
	byID   map[string]*key
	timer  *time.Timer
	closed bool
}

type key struct {
	token  ackstore.Token // LastUsedAt: as the store has it
	caller *caller
	used   time.Time // since the server's start
}

// lastUse: the store's word may be newer where a clock was set back.
func (e *key) lastUse() time.Time {
	if e.used.After(e.token.LastUsedAt) {
		return e.used
	}
	return e.token.LastUsedAt
}

func newKeyring(now func() time.Time, ended func(ids map[string]bool)) *keyring {
	return &keyring{now: now, ended: ended, byHash: map[[32]byte]*key{}}
}

// load takes the tokens as they stand in the store for the truth.
func (k *keyring) load(ctx context.Context, store tokenStore) error {
	tokens, err := store.Tokens(ctx)
	if err != nil {
		return err
	}
	fresh, ids := make(map[[32]byte]*key, len(tokens)), make(map[string]*key, len(tokens))
	for _, t := range tokens {
		e := &key{token: t, caller: callerOf(t)}
		fresh[t.Hash], ids[t.ID] = e, e
	}
	k.mu.Lock()
	gone := map[string]bool{}
	for hash, was := range k.byHash {
		if e := fresh[hash]; e != nil {
			e.used = was.used
		} else {
			gone[was.token.ID] = true
		}
	}
	k.byHash, k.byID = fresh, ids
	k.arm()
	k.mu.Unlock()
	k.tell(gone)
	return nil
}

// close stops the timer: nobody is told of an end any more.
func (k *keyring) close() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.closed = true
	if k.timer != nil {
		k.timer.Stop()
	}
}

// none tells whether no token was ever made, or all were dropped.
func (k *keyring) none() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return len(k.byHash) == 0
}

// bearer finds who presented a token's text.
func (k *keyring) bearer(text string) (*caller, bool) {
	hash := sha256.Sum256([]byte(text))
	k.mu.Lock()
	defer k.mu.Unlock()
	found := k.byHash[hash]
	return found.holder(k.now())
}

// holder is the caller that a token makes, while it lasts; it was used now.
func (e *key) holder(now time.Time) (*caller, bool) {
	if e == nil || e.expired(now) {
		return nil, false
	}
	e.used = now
	return e.caller, true
}

// holder finds the caller of a token's id, as a cookie's session names it.
func (k *keyring) holder(id string) (*caller, bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.byID[id].holder(k.now())
}

func (e *key) expired(now time.Time) bool {
	return !e.token.ExpiresAt.IsZero() && !now.Before(e.token.ExpiresAt)
}

// arm sets the timer for the next expiry. The lock is held.
func (k *keyring) arm() {
	if k.timer != nil {
		k.timer.Stop()
	}
	now := k.now()
	var next time.Time
	for _, e := range k.byHash {
		at := e.token.ExpiresAt
		if at.After(now) && (next.IsZero() || at.Before(next)) {
			next = at
		}
	}
	if next.IsZero() || k.closed {
		return
	}
	// A day at most: a clock that jumps must not make a token live on.
	k.timer = time.AfterFunc(min(next.Sub(now), 24*time.Hour), k.expire)
}

// expire tells of the tokens whose time is over, and waits for the next.
func (k *keyring) expire() {
	k.mu.Lock()
	now := k.now()
	gone := map[string]bool{}
	for _, e := range k.byHash {
		if e.expired(now) {
			gone[e.token.ID] = true
		}
	}
	k.arm()
	k.mu.Unlock()
	k.tell(gone)
}

func (k *keyring) tell(gone map[string]bool) {
	if len(gone) > 0 {
		k.ended(gone)
	}
}
