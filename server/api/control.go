package api

// Machine is a machine as management shows it.
type Machine struct {
	MachineID        string     `json:"machine_id"`
	State            string     `json:"state"`       // online, suspect, grace, offline
	Explanation      string     `json:"explanation"` // why its queue stands, or that nothing waits
	Since            Time       `json:"since,omitzero"`
	Contested        *Contested `json:"contested,omitempty"`
	Address          string     `json:"address,omitempty"`
	InstanceID       string     `json:"instance_id,omitempty"`
	StreamID         string     `json:"stream_id,omitempty"`
	MaxInFlight      int        `json:"max_in_flight"`
	CreditReason     string     `json:"credit_reason,omitempty"` // what was said with the limit in force
	InFlight         int        `json:"in_flight"`
	Queued           int        `json:"queued"` // queued and scheduled
	OldestQueuedAgeS *Seconds   `json:"oldest_queued_age_s,omitempty"`
	Breakers         []Breaker  `json:"breakers"`
	Paused           []Pause    `json:"paused"`
	LastSeenAt       Time       `json:"last_seen_at,omitzero"`
	LastEventID      uint64     `json:"last_event_id"`
}

// Contested says that two agents claim to be one machine.
type Contested struct {
	Addresses []string `json:"addresses"`
	Since     Time     `json:"since"`
}

// Label is a session or a replay as it stands.
type Label struct {
	SessionID string         `json:"session_id,omitempty"`
	ReplayID  string         `json:"replay_id,omitempty"`
	Status    string         `json:"status"` // active, paused, paused_need_help, closed
	Closed    bool           `json:"closed"`
	Counts    map[string]int `json:"counts"`
	Paused    []Pause        `json:"paused"`
}

// Pause is one cause for which a machine, session or replay is held.
type Pause struct {
	Scope     string `json:"scope"`
	ID        string `json:"id"`
	MachineID string `json:"machine_id,omitempty"`
	Cause     string `json:"cause"` // operator, on_dead, need_help
	Note      string `json:"note,omitempty"`
	By        string `json:"by,omitempty"`
	Since     Time   `json:"since"`
	Until     Time   `json:"until,omitzero"`
	ActionID  string `json:"action_id,omitempty"` // that caused an on_dead
}

// Breaker is a door that is not closed.
type Breaker struct {
	MachineID string `json:"machine_id,omitempty"`
	Target    string `json:"target,omitempty"`
	State     string `json:"state"` // open, half_open
	Until     Time   `json:"until,omitzero"`
	Reason    string `json:"reason,omitempty"`
	Since     Time   `json:"since,omitzero"`
	Probe     string `json:"probe,omitempty"`
}

// Queue is the whole of a server at a glance.
type Queue struct {
	Counts     map[string]int `json:"counts"`
	Recent     []Record       `json:"recent"`
	Breakers   []Breaker      `json:"breakers"`
	Paused     []Pause        `json:"paused"`
	Orphans    int            `json:"orphans"`  // waiting to be resent
	Machines   int            `json:"machines"` // known
	ServerTime Time           `json:"server_time"`
}

// Selection says what a bulk cancel or redrive acts on: an AND of its fields.
type Selection struct {
	MachineID  string   `json:"machine_id,omitempty"`
	SessionID  string   `json:"session_id,omitempty"`
	ReplayID   string   `json:"replay_id,omitempty"`
	State      string   `json:"state,omitempty"`
	Type       string   `json:"type,omitempty"`
	OlderThanS *Seconds `json:"older_than_s,omitempty"`
	DryRun     bool     `json:"dry_run,omitempty"`
}

// Count answers a bulk call.
type Count struct {
	Count int `json:"count"`
}

// PauseRequest is the body of a pause.
type PauseRequest struct {
	Note      string `json:"note,omitempty"`
	Until     Time   `json:"until,omitzero"`
	MachineID string `json:"machine_id,omitempty"` // of a session: on this machine only
}

// Resolution is the body of a resolve.
type Resolution struct {
	As   string `json:"as"` // done, failed
	Note string `json:"note,omitempty"`
}

// Token is a bearer token. Text is there once, in the answer to its creation.
type Token struct {
	ID        string   `json:"id"`
	Name      string   `json:"name"`
	Scopes    []string `json:"scopes"`
	CreatedAt Time     `json:"created_at"`
	ExpiresAt Time     `json:"expires_at,omitzero"`
	// LastUsedAt is written down now and then only: a crash may forget minutes.
	LastUsedAt Time   `json:"last_used_at,omitzero"`
	Text       string `json:"token,omitempty"`
}

// NewToken asks for a token.
type NewToken struct {
	Name      string   `json:"name"`
	Scopes    []string `json:"scopes"`
	ExpiresAt Time     `json:"expires_at,omitzero"`
}

// Watchdog is what GET /v1/watchdog/metrics tells.
type Watchdog struct {
	OrphansDetectedTotal uint64  `json:"orphans_detected_total"`
	OrphansResentTotal   uint64  `json:"orphans_resent_total"`
	OrphansGiveupTotal   uint64  `json:"orphans_giveup_total"`
	ScansTotal           uint64  `json:"scans_total"`
	ScansFailedTotal     uint64  `json:"scans_failed_total"`
	LastScanTS           *Time   `json:"last_scan_ts"` // null before the first
	LastScanDurationMS   float64 `json:"last_scan_duration_ms"`
	CurrentInFlightCount int     `json:"current_in_flight_count"`
	CurrentOrphanCount   int     `json:"current_orphan_count"`
}

// Change is the data of the feed's change and machine events.
type Change struct {
	ActionID  string `json:"action_id,omitempty"`
	MachineID string `json:"machine_id,omitempty"`
	State     string `json:"state,omitempty"`
	Event     string `json:"event"`
	Detail    string `json:"detail,omitempty"`
	At        Time   `json:"at"`
}
