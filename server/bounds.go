package server

// bounds are what Adopt replaces.
type bounds struct {
	limits   Limits
	defaults Defaults
}

func (l Limits) withDefaults() Limits {
	size := func(n *int64, v int64) {
		if *n == 0 {
			*n = v
		}
	}
	size(&l.MaxPayloadBytes, 1<<20)
	size(&l.MaxResultBytes, 1<<20)
	size(&l.MaxBodyBytes, 16<<20)
	return l
}

// Adopt puts other limits and defaults in force. A request that is being read goes
// on under those it began with.
func (s *Server) Adopt(l Limits, d Defaults) {
	s.bounds.Store(&bounds{l.withDefaults(), d})
}

func (s *Server) limits() Limits     { return s.bounds.Load().limits }
func (s *Server) defaults() Defaults { return s.bounds.Load().defaults }
