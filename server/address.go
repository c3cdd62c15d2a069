package server

import (
	"net"
	"net/http"
	"net/netip"
	"strings"
)

// addressOf is who a request comes from: its connection's peer, or, where that is
// a trusted proxy, the nearest in X-Forwarded-For that is none. What stands
// further left the client may have written itself.
func (s *Server) addressOf(r *http.Request) string {
	peer := hostAddr(r.RemoteAddr)
	if !s.trusts(peer) {
		return r.RemoteAddr
	}
	hops := strings.Split(strings.Join(r.Header.Values("X-Forwarded-For"), ","), ",")
	for i := len(hops) - 1; i >= 0; i-- {
		hop := hostAddr(strings.TrimSpace(hops[i]))
		if !hop.IsValid() {
			break // a proxy that hides whom it saw; who is before it can claim anything
		}
		if peer = hop; !s.trusts(hop) {
			break
		}
	}
	if peer == hostAddr(r.RemoteAddr) {
		return r.RemoteAddr
	}
	return peer.String()
}

func (s *Server) trusts(a netip.Addr) bool {
	for _, p := range s.cfg.TrustedProxies {
		if p.Contains(a) {
			return true
		}
	}
	return false
}

// hostAddr reads an address with or without a port; invalid if it is none.
func hostAddr(text string) netip.Addr {
	if host, _, err := net.SplitHostPort(text); err == nil {
		text = host
	}
	a, err := netip.ParseAddr(strings.Trim(text, "[]"))
	if err != nil {
		return netip.Addr{}
	}
	return a.Unmap().WithZone("")
}
