package daemon

import "encoding/json"

// levelOf finds the level in a line of a JSON log.
func levelOf(line []byte) string {
	var l struct {
		Level string `json:"level"`
	}
	if json.Unmarshal(line, &l) != nil {
		return "info"
	}
	return l.Level
}
