package server

import (
	"errors"
	"time"

	"pushd/ackstore"
	"pushd/stream"
)

const maxWait = 60 * time.Second

// next is POST and GET /next: the next action, or 204 when there is none in time.
func (c *call) next() error {
	c.w.Header().Set("Cache-Control", "no-store")
	req, err := c.attachment(ackstore.ViaPoll)
	wait := c.query.seconds("wait_s", maxWait)
	if err == nil {
		err = c.query.faults.err()
	}
	if err == nil {
		err = c.noFields() // what is unread would hide that the client goes
	}
	if err != nil {
		return err
	}
	seat, err := c.admit(req)
	if errors.Is(err, stream.ErrReplaced) {
		return c.nothing()
	}
	if err != nil {
		return err
	}
	defer seat.Leave()
	dispatch, found, err := stream.Poll(c.r.Context(), seat, c.store, c.notifier, wait)
	if err != nil {
		return err
	}
	if !found {
		return c.nothing()
	}
	if err := stream.Answer(c.w, seat, dispatch, c.cfg.Stream.WriteTimeout); err != nil {
		c.cfg.Logger.Debug().Err(err).Str("machine", req.MachineID).Msg("a poll was not answered")
		return nil
	}
	c.metrics.Sent(dispatch, c.cfg.Now())
	return nil
}
