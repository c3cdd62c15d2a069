package server

import (
	"path"
	"regexp"
	"strings"

	"pushd/ackstore"
)

// power is what a scope allows, and what a route asks for.
type power uint8

const (
	public power = iota // no token is needed
	mayPush
	mayRead
	mayOperate
	mayAgent
	mayAdmin
	mayCredit // an agent's power or an operator's
)

var powerNames = map[string]power{
	"push": mayPush, "read": mayRead, "operate": mayOperate, "agent": mayAgent, "admin": mayAdmin,
}

// grant is one scope of a token: a power over the machines whose id matches.
type grant struct {
	power   power
	pattern string // empty: all
}

// caller is who makes a request and what it may.
type caller struct {
	grants  []grant
	open    bool   // an open server's caller may do all
	tokenID string // empty on an open server
	name    string
}

var patternForm = regexp.MustCompile(`^[A-Za-z0-9._:@*?\[\]^-]{1,128}$`)

// parseScope reads admin, push[:P], read[:P], operate[:P] or agent:P; the text it
// returns says what is wrong.
func parseScope(text string) (grant, string) {
	word, pattern, limited := strings.Cut(text, ":")
	power, known := powerNames[word]
	switch {
	case !known:
		return grant{}, "must be admin, push, read, operate or agent, with :PATTERN for some machines"
	case power == mayAdmin && limited:
		return grant{}, "admin takes no pattern"
	case power == mayAgent && !limited:
		return grant{}, "agent needs a pattern: agent:* for every machine"
	case !limited:
		return grant{power, ""}, ""
	case !patternForm.MatchString(pattern):
		return grant{}, "has no pattern of machine ids after the colon"
	}
	if _, err := path.Match(pattern, ""); err != nil {
		return grant{}, "has a pattern that is none"
	}
	if pattern == "*" {
		pattern = ""
	}
	return grant{power, pattern}, ""
}

// callerOf is who bears a token. Scopes that a newer version wrote count for nothing.
func callerOf(t ackstore.Token) *caller {
	c := &caller{tokenID: t.ID, name: t.Name}
	for _, text := range t.Scopes {
		if g, wrong := parseScope(text); wrong == "" {
			c.grants = append(c.grants, g)
		}
	}
	return c
}

// gives tells whether g has power p, if only over some machines.
func (g grant) gives(p power) bool {
	switch {
	case g.power == mayAdmin, g.power == p:
		return true
	case p == mayCredit:
		return g.power == mayAgent || g.power == mayOperate
	}
	return false
}

func (g grant) covers(machineID string) bool {
	if g.pattern == "" {
		return true
	}
	match, err := path.Match(g.pattern, machineID)
	return err == nil && match
}

// may tells whether c has power p over some machine.
func (c *caller) may(p power) bool {
	if c.open || p == public {
		return true
	}
	for _, g := range c.grants {
		if g.gives(p) {
			return true
		}
	}
	return false
}

// over tells whether c has power p over a machine.
func (c *caller) over(p power, machineID string) bool {
	if c.open {
		return true
	}
	for _, g := range c.grants {
		if g.gives(p) && g.covers(machineID) {
			return true
		}
	}
	return false
}

// reach is the machines over which c has power p; nil is all of them.
func (c *caller) reach(p power) func(machineID string) bool {
	if c.open {
		return nil
	}
	for _, g := range c.grants {
		if g.gives(p) && g.pattern == "" {
			return nil
		}
	}
	return func(machineID string) bool { return c.over(p, machineID) }
}

// outOfReach is the refusal of a machine that a token's pattern does not cover.
func outOfReach(machineID string) *refusal {
	return refuse(forbidden, "the token does not cover machine %s", quote(machineID))
}
