// Package settings is every knob of `pushd serve`: one struct whose tags carry
// the key, the default and the limits, filled from a file, the environment and
// flags, the later over the earlier.
//
// A value that does not parse, or that makes no sense, is an error of one line
// that names the key, its environment variable and the value. Nothing is ever
// corrected in silence. What a setting does is the business of the package that
// receives it; this one knows only how it is written.
package settings

import (
	"net/netip"
	"time"

	"pushd/ackstore"
)

// Settings are the values in force.
type Settings struct {
	Listen    string `key:"listen" default:"127.0.0.1:8080" kind:"address" doc:"where to listen, HOST:PORT; port 0 takes a free one"`
	DataDir   string `key:"data_dir" default:"./data" doc:"the folder of the store; one process at a time"`
	Log       Log
	Stream    Stream
	Watchdog  Watchdog
	Policy    Policy
	Limits    Limits
	Retention Retention
	Auth      Auth
	TLS       TLS
	Install   Install
	Traces    Traces
}

// Log is how the service speaks of itself, on stderr.
type Log struct {
	Level  string `key:"log.level" default:"info" oneof:"debug info warn error" doc:"the least that is logged"`
	Format string `key:"log.format" default:"auto" oneof:"auto console json" doc:"auto is console on a terminal, JSON elsewhere"`
}

// Stream is about subscriptions and the graces of their loss.
type Stream struct {
	Heartbeat       time.Duration `key:"stream.heartbeat" default:"15s" doc:"how often a stream says hb"`
	WriteTimeout    time.Duration `key:"stream.write_timeout" default:"5s" doc:"a reader that takes no byte for this long is disconnected"`
	DisconnectGrace time.Duration `key:"stream.disconnect_grace" default:"10s" doc:"how long after a stream's end an unacknowledged delivery waits for its agent; retry and retry_ms are a fifth to a half of it, at most 5s, and after a shutdown a fifth to four fifths, at most 8s"`
	ReconnectGrace  time.Duration `key:"stream.reconnect_grace" default:"60s" doc:"the same for a delivery that an ack has named, and after a server start"`
	CancelGrace     time.Duration `key:"stream.cancel_grace" default:"30s" doc:"how long an agent that was told to stop may take to answer"`
	SuspectAfter    time.Duration `key:"stream.suspect_after" default:"45s" doc:"an agent that has begun to beat and misses this long gets nothing new"`
	MaxAge          time.Duration `key:"stream.max_age" default:"1h" zero:"never" doc:"a stream is recycled at this age, give or take 20 %; 0 never"`
	MaxStreams      int           `key:"stream.max_streams" default:"100000" min:"1" doc:"beyond it a new machine gets 503"`
}

// Watchdog is about deliveries that nobody acks.
type Watchdog struct {
	Enabled              bool          `key:"watchdog.enabled" default:"true" doc:"false: nothing is resent or given up by time"`
	ScanInterval         time.Duration `key:"watchdog.scan_interval" default:"10s" doc:"the net under the exact timers"`
	OrphanTimeout        time.Duration `key:"watchdog.orphan_timeout" default:"15s" doc:"until the first ack of what went out on a stream"`
	PollOrphanTimeout    time.Duration `key:"watchdog.poll_orphan_timeout" default:"30s" doc:"the same for what went out by poll"`
	InactivityTimeout    time.Duration `key:"watchdog.inactivity_timeout" default:"600s" doc:"received work with no sign of life for this long is stalled"`
	Ceiling              time.Duration `key:"watchdog.ceiling" default:"4h" doc:"received work is stopped this long after its dispatch, whatever its activity"`
	MaxResends           int           `key:"watchdog.max_resends" default:"2" min:"0" doc:"resends after a timeout, where an action does not say"`
	MaxDisconnectResends int           `key:"watchdog.max_disconnect_resends" default:"8" min:"0" doc:"resends after a lost stream"`
	RepushPosition       string        `key:"watchdog.repush_position" default:"head" oneof:"head tail" doc:"tail: an orphan goes behind its lane"`
	SkipTypes            []string      `key:"watchdog.skip_types" default:"" doc:"types pushed as at_most_once, comma-separated"`
}

// Policy is about executions that fail.
type Policy struct {
	MaxAttempts          int           `key:"policy.max_attempts" default:"2" min:"1" doc:"executions that may fail for a reason of their own"`
	TransientMaxAttempts int           `key:"policy.transient_max_attempts" default:"5" min:"1" doc:"executions that may fail for want of a service"`
	ErrorDelay           time.Duration `key:"policy.error_delay" default:"1s" zero:"at once" doc:"the wait before a failed execution runs again, doubling; 0 at once"`
	BackoffBase          time.Duration `key:"policy.backoff_base" default:"10s" doc:"the first wait after a transient failure, doubling"`
	BackoffMax           time.Duration `key:"policy.backoff_max" default:"600s" doc:"where that doubling ends"`
	QuotaDelay           time.Duration `key:"policy.quota_delay" default:"15m" doc:"the wait for a quota whose end nobody knows, doubling to 4h"`
	ReleaseDelay         time.Duration `key:"policy.release_delay" default:"250ms" zero:"at once" doc:"the least wait after a release, doubling in a row; 0 at once"`
	BreakerThreshold     int           `key:"policy.breaker_threshold" default:"3" min:"1" doc:"transient failures in a row that open a breaker"`
	BreakerPause         time.Duration `key:"policy.breaker_pause" default:"300s" doc:"how long it stays open the first time"`
}

// Limits keep one client from using up what all share.
type Limits struct {
	MaxPayloadBytes     Bytes `key:"limits.max_payload_bytes" default:"1MiB" doc:"of one action's payload"`
	MaxResultBytes      Bytes `key:"limits.max_result_bytes" default:"1MiB" doc:"of one ack's result"`
	MaxBodyBytes        Bytes `key:"limits.max_body_bytes" default:"16MiB" doc:"of a request body, NDJSON apart"`
	MaxInFlightBytes    Bytes `key:"limits.max_in_flight_bytes" default:"8MiB" doc:"payload in flight per machine; one action always may be"`
	MaxQueuedPerMachine int   `key:"limits.max_queued_per_machine" default:"100000" min:"1" doc:"queued or scheduled actions of one machine"`
	MaxMachines         int   `key:"limits.max_machines" default:"100000" min:"1" doc:"machines known to the store"`
}

// Retention is how long what is settled is kept.
type Retention struct {
	Settled    time.Duration `key:"retention.settled" default:"24h" doc:"records of done and cancelled actions"`
	Dead       time.Duration `key:"retention.dead" default:"336h" doc:"records of dead letters"`
	Tombstones time.Duration `key:"retention.tombstones" default:"720h" doc:"ids, digests and final states, which tell a repeated push"`
}

// Auth is about who may speak.
type Auth struct {
	Insecure       bool           `key:"auth.insecure" default:"false" doc:"true: no tokens needed even off loopback"`
	MaxFailures    int            `key:"auth.max_failures" default:"100" min:"0" doc:"bad tokens of one address at once; beyond it they are answered 429, and valid ones as ever; 0 no limit"`
	FailureWindow  time.Duration  `key:"auth.failure_window" default:"1m" doc:"the time in which an address may present so many more"`
	TrustedProxies []netip.Prefix `key:"auth.trusted_proxies" default:"" doc:"addresses or networks, comma-separated, whose X-Forwarded-For is believed"`
}

// TLS is the server's certificate, and whose certificates clients may bear.
type TLS struct {
	CertFile     string `key:"tls.cert_file" default:"" doc:"the certificate with its chain, PEM; read again when it changes; empty: no TLS"`
	KeyFile      string `key:"tls.key_file" default:"" doc:"its key, PEM"`
	ClientCAFile string `key:"tls.client_ca_file" default:"" doc:"who signs the certificates of agents, PEM: one whose common name or DNS names are machine ids is their agent; empty: none are asked for"`
}

// Install is about bringing the agent onto machines.
type Install struct {
	Dir string `key:"install.dir" default:"" doc:"the folder of a release with its SHA256SUMS, which GET /install.sh and /install.ps1 download the agent from, without a token; empty: none"`
}

// Traces is about telling OpenTelemetry what happens to actions.
type Traces struct {
	Endpoint string  `key:"traces.endpoint" default:"" kind:"url" doc:"a collector's address for OTLP over HTTP, like http://127.0.0.1:4318/v1/traces; empty: off"`
	Sample   float64 `key:"traces.sample" default:"1" doc:"the share of actions without a traceparent that are traced, 0 to 1; with one its sampled flag decides"`
}

// Rules are the numbers that the store decides by.
func (s *Settings) Rules() ackstore.Rules {
	return ackstore.Rules{
		WatchdogOff:          !s.Watchdog.Enabled,
		OrphanTimeout:        s.Watchdog.OrphanTimeout,
		PollOrphanTimeout:    s.Watchdog.PollOrphanTimeout,
		InactivityTimeout:    s.Watchdog.InactivityTimeout,
		Ceiling:              s.Watchdog.Ceiling,
		MaxDisconnectResends: s.Watchdog.MaxDisconnectResends,
		RepushTail:           s.Watchdog.RepushPosition == "tail",

		DisconnectGrace: s.Stream.DisconnectGrace,
		ReconnectGrace:  s.Stream.ReconnectGrace,
		CancelGrace:     s.Stream.CancelGrace,
		SuspectAfter:    s.Stream.SuspectAfter,

		ErrorDelay:       s.Policy.ErrorDelay,
		BackoffBase:      s.Policy.BackoffBase,
		BackoffMax:       s.Policy.BackoffMax,
		QuotaDelay:       s.Policy.QuotaDelay,
		ReleaseDelay:     s.Policy.ReleaseDelay,
		BreakerThreshold: s.Policy.BreakerThreshold,
		BreakerPause:     s.Policy.BreakerPause,

		MaxInFlightBytes: int64(s.Limits.MaxInFlightBytes),
		MaxQueued:        s.Limits.MaxQueuedPerMachine,
		MaxMachines:      s.Limits.MaxMachines,

		KeepSettled:    s.Retention.Settled,
		KeepDead:       s.Retention.Dead,
		KeepTombstones: s.Retention.Tombstones,
	}
}
