package setup

import (
	"fmt"
	"net/url"
	"strings"
)

// checkProxies refuses an environment whose proxy cannot be understood: Go would
// go past it in silence, where often nothing is to be reached. What it holds is
// not spelt out, for there may be a password in it.
func checkProxies(environ []string) error {
	for _, kv := range environ {
		name, value, _ := strings.Cut(kv, "=")
		switch strings.ToUpper(name) {
		case "HTTP_PROXY", "HTTPS_PROXY":
			if value != "" && !isProxy(value) {
				return fmt.Errorf("%s holds no address of a proxy, like http://proxy.example:3128 or http://user:password@proxy.example:3128 (signs of the password as %%25, %%23, %%40 …)", name)
			}
		}
	}
	return nil
}

func isProxy(address string) bool {
	if !strings.Contains(address, "://") {
		address = "http://" + address
	}
	u, err := url.Parse(address)
	if err != nil || u.Hostname() == "" || u.RawQuery != "" || u.Fragment != "" || strings.Trim(u.Path, "/") != "" {
		return false
	}
	switch u.Scheme {
	case "http", "https", "socks5", "socks5h":
		return true
	}
	return false
}
