package storetest

import "github.com/stretchr/testify/require"

// credits is the model of max_in_flight (protocol section 6): the lower of the
// agent's own and an operator's.
type credits struct {
	own      map[string]int // of the subscription, or of the agent's own word since
	patched  map[string]bool
	unsure   map[string]bool // the protocol leaves open whether the agent is another
	operator map[string]*int
}

func newCredits() credits {
	return credits{map[string]int{}, map[string]bool{}, map[string]bool{}, map[string]*int{}}
}

// subscribed notes a subscription with room for most.
func (c credits) subscribed(m, before, instance string, most int) {
	if c.patched[m] && (instance == before || before == "") {
		c.unsure[m] = c.unsure[m] || before == "" // none is not surely another, nor the same
		return
	}
	c.own[m], c.patched[m], c.unsure[m] = most, false, false
}

// inForce holds the credit a store tells against the model.
func (c credits) inForce(w *world, m string, got int) {
	w.Helper()
	own, known := c.own[m]
	if !known || c.unsure[m] {
		return
	}
	if most := c.operator[m]; most != nil {
		own = min(own, *most)
	}
	require.Equal(w, own, got, "credit of %s", m)
}
