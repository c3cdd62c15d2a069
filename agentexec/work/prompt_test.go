package work_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"pushd/agentexec/work"
)

func TestPrompts(t *testing.T) {
	t.Parallel()
	for payload, good := range map[string]bool{
		`"hi"`:                                   true,
		`{"prompt":"hi"}`:                        true,
		`{"prompt":"hi","resume":"0-a.b_c"}`:     true,
		`{"prompt":"hi","model":"a/b:c"}`:        true,
		`{"prompt":"hi","resume":"--dangerous"}`: false,
		`{"prompt":"hi","resume":"../x"}`:        false,
		`{"prompt":"hi","model":"-m"}`:           false,
		`{"prompt":"hi","resum":"x"}`:            false,
		`""`:                                     false,
		`null`:                                   false,
		`7`:                                      false,
		``:                                       false,
	} {
		_, err := work.ParsePrompt(json.RawMessage(payload))
		require.Equal(t, good, err == nil, "%s: %v", payload, err)
	}
}

func FuzzPrompt(f *testing.F) {
	f.Add([]byte(`{"prompt":"x","resume":"y"}`))
	f.Fuzz(func(t *testing.T, payload []byte) {
		p, err := work.ParsePrompt(payload)
		if err == nil {
			require.NotEmpty(t, p.Prompt)
			require.False(t, strings.HasPrefix(p.Resume, "-") || strings.HasPrefix(p.Model, "-"))
		}
	})
}
