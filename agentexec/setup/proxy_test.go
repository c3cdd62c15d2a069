package setup

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestAProxyThatCannotBeMeantIsRefused(t *testing.T) {
	for value, good := range map[string]bool{
		"":                                   true,
		"http://proxy.example:3128":          true,
		"http://proxy.example:3128/":         true,
		"proxy.example:3128":                 true,
		"socks5://127.0.0.1:1080":            true,
		"http://bob:s%25cret@[::1]:3128":     true,
		"http://bob:s%cret@proxy.example:80": false,
		"http://bob:s#cret@proxy.example:80": false,
		"http://bob:s?cret@proxy.example:80": false,
		"http://bob:s/cret@proxy.example:80": false,
		"ftp://proxy.example":                false,
		"http://":                            false,
		"http://proxy.example:port":          false,
	} {
		for _, name := range []string{"HTTP_PROXY", "https_proxy"} {
			err := checkProxies([]string{"NO_PROXY=*", name + "=" + value})
			require.Equal(t, good, err == nil, value)
			if err != nil {
				require.ErrorContains(t, err, name)
				require.NotContains(t, err.Error(), "cret@")
			}
		}
	}
}
