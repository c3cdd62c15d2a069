package server

import (
	"context"
	"time"

	"pushd/ackstore"
)

// What the server asks of a store, by the handlers that ask it. An
// [ackstore.Store] answers all of it.
type (
	pusher interface {
		Push(ctx context.Context, r ackstore.Rules, groups [][]ackstore.NewAction) ([]ackstore.Pushed, error)
		owner
	}
	settler interface {
		Settle(ctx context.Context, r ackstore.Rules, acks []ackstore.Ack) ([]ackstore.AckResult, error)
		owner
	}
	owner interface {
		Owners(ctx context.Context, ids []string) ([]string, error)
	}
	claimer interface {
		Claim(ctx context.Context, r ackstore.Rules, reqs []ackstore.ClaimReq) ([]ackstore.Claimed, error)
	}
	keeper interface {
		Beat(ctx context.Context, r ackstore.Rules, leases []ackstore.Lease) ([]error, error)
		SetCredit(ctx context.Context, r ackstore.Rules, reqs []ackstore.CreditReq) ([]ackstore.Machine, error)
		DropMachine(ctx context.Context, r ackstore.Rules, machineID string) error
		Machine(ctx context.Context, r ackstore.Rules, id string) (ackstore.Machine, error)
		Machines(ctx context.Context, r ackstore.Rules, after string, limit int) ([]ackstore.Machine, error)
	}
	tokenStore interface {
		Tokens(ctx context.Context) ([]ackstore.Token, error)
		PutToken(ctx context.Context, t ackstore.Token) error
		DropToken(ctx context.Context, id string) error
	}
	browser interface {
		Get(ctx context.Context, r ackstore.Rules, id string) (ackstore.Record, error)
		List(ctx context.Context, f ackstore.Filter, cursor string, limit int) ([]ackstore.Action, string, error)
		Overview(ctx context.Context, r ackstore.Rules) (ackstore.Overview, error)
		Label(ctx context.Context, scope ackstore.Scope, id string) (ackstore.Label, error)
		Labels(ctx context.Context, scope ackstore.Scope, after string, limit int) ([]ackstore.Label, error)
		Writable(ctx context.Context) error
		Now() time.Time
	}
	actor interface {
		Cancel(ctx context.Context, r ackstore.Rules, acts []ackstore.Act) ([]ackstore.Acted, error)
		Redrive(ctx context.Context, r ackstore.Rules, acts []ackstore.Act) ([]ackstore.Acted, error)
		Resolve(ctx context.Context, r ackstore.Rules, acts []ackstore.Act) ([]ackstore.Acted, error)
		Bulk(ctx context.Context, r ackstore.Rules, req ackstore.BulkReq) (ackstore.BulkResult, error)
		Hold(ctx context.Context, r ackstore.Rules, h ackstore.Hold) error
		Unhold(ctx context.Context, r ackstore.Rules, scope ackstore.Scope, id, machineID string) error
		CloseLabel(ctx context.Context, scope ackstore.Scope, id string) error
		CloseBreaker(ctx context.Context, r ackstore.Rules, machineID, target string) error
	}
)

// Store is all that the server asks of a store.
type Store interface {
	pusher
	settler
	claimer
	keeper
	tokenStore
	browser
	actor
}
