package main

import (
	"strings"
)

// cures are the lines that help, by what is wrong and by the proxy that it is
// about. docs/operating.md shows them whole.
var cures = map[string][]struct{ proxy, line string }{
	"buffering": {
		{"nginx", "proxy_buffering off;   # and no proxy_ignore_headers X-Accel-Buffering"},
		{"Caddy", "reverse_proxy … { flush_interval -1 }"},
		{"HAProxy", "option http-no-delay   # and no filter that holds answers"},
		{"IIS", `appcmd set config -section:system.webServer/proxy /responseBufferLimit:0 /commit:apphost`},
	},
	"idle": {
		{"nginx", "proxy_read_timeout 90s; proxy_send_timeout 90s; send_timeout 90s;"},
		{"Caddy", "servers { timeouts { write 0 } }   # and no read_timeout in the transport of reverse_proxy"},
		{"HAProxy", "timeout client 90s; timeout server 90s   # each on a line of its own"},
		{"IIS", `appcmd set config -section:system.webServer/proxy /timeout:00:01:30 /commit:apphost`},
	},
	"compression": {
		{"nginx", "gzip off;   # in the location, or no text/event-stream in gzip_types"},
		{"Caddy", "@plain not path */events */v1/feed   # then: encode @plain gzip"},
		{"HAProxy", "compression type text/html application/json   # without text/event-stream"},
		{"IIS", `<urlCompression doDynamicCompression="false" />`},
	},
	"body_size": {
		{"nginx", "client_max_body_size 20m;"},
		{"Caddy", "request_body { max_size 20MB }"},
		{"HAProxy", "no http-request deny by req.body_size or req.hdr(content-length)"},
		{"IIS", `<requestLimits maxAllowedContentLength="20971520" />`},
	},
	"long_poll": {
		{"nginx", "proxy_read_timeout 90s;"},
		{"Caddy", "no read_timeout or response_header_timeout in the transport of reverse_proxy"},
		{"HAProxy", "timeout server 90s"},
		{"IIS", `appcmd set config -section:system.webServer/proxy /timeout:00:01:30 /commit:apphost`},
	},
}

// cureFor adds the lines for the proxy that has given its name; for all, if none.
func (d *doctor) cureFor(what, server string) {
	named := false
	for _, c := range cures[what] {
		named = named || speaks(server, c.proxy)
	}
	for _, c := range cures[what] {
		if !named || speaks(server, c.proxy) {
			d.cure(c.proxy + ": " + c.line)
		}
	}
}

// speaks tells whether a Server header is a proxy's.
func speaks(server, proxy string) bool {
	return server != "" && strings.Contains(strings.ToLower(server), strings.ToLower(proxy))
}
