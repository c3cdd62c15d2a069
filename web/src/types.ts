// The wire's types, as far as a page shows them (openapi.yaml has all).

export interface Session {
  signed_in: boolean;
  open: boolean;
  name?: string;
  can: string[];
  partly: boolean;
  version?: string;
  server_time: string;
}

export interface Pause {
  scope: string;
  id: string;
  machine_id?: string;
  cause: string;
  note?: string;
  by?: string;
  since: string;
  until?: string;
  action_id?: string;
}

export interface Breaker {
  machine_id?: string;
  target?: string;
  state: string;
  until?: string;
  reason?: string;
  since?: string;
  probe?: string;
}

export interface Machine {
  machine_id: string;
  state: string;
  since?: string;
  contested?: { addresses: string[]; since: string };
  address?: string;
  instance_id?: string;
  stream_id?: string;
  max_in_flight: number;
  in_flight: number;
  queued: number;
  oldest_queued_age_s?: number;
  breakers: Breaker[];
  paused: Pause[];
  last_seen_at?: string;
  last_event_id: number;
  explanation: string;
  credit_reason?: string;
}

export interface FleetRow {
  machine_id: string;
  state: string;
  since?: string;
  last_seen_at?: string;
  last_ack_at?: string;
  ack_ms?: number;
  queued: number;
  in_flight: number;
  max_in_flight: number;
  orphans: number;
  oldest_queued_age_s?: number;
  paused?: string[];
  breakers?: string[];
  contested?: boolean;
  troubles?: string[];
  hour?: { deliveries: number[]; lost: number[] };
}

export interface Fleet {
  items: FleetRow[];
  total: number;
  machines: number;
  states: Record<string, number>;
  troubled: number;
  orphans: number;
  unacked: number;
  oldest_unacked?: { action_id: string; sent_at: string };
  server_time: string;
}

export interface Waiting {
  reason: string;
  resend: boolean;
  scope?: string;
  id?: string;
  cause?: string;
  note?: string;
  action_id?: string;
  in_flight?: string[];
  machine_id?: string;
  target?: string;
  until?: string;
}

export interface Entry {
  at: string;
  event: string;
  delivery?: number;
  detail?: string;
}

export interface Action {
  action_id: string;
  machine_id: string;
  session_id?: string;
  replay_id?: string;
  type: string;
  target?: string;
  priority: number;
  guarantee: string;
  on_dead: string;
  labels: Record<string, string>;
  orphan_timeout_s?: number;
  max_resends: number;
  max_attempts: number;
  transient_max_attempts: number;
  state: string;
  seq: number;
  waiting_for?: Waiting;
  delivery?: number;
  deliveries: number;
  resent_count: number;
  resends: { timeout: number; disconnect: number };
  attempts: number;
  transient_attempts: number;
  quota_waits: number;
  config_waits: number;
  created_at: string;
  available_at?: string;
  expires_at?: string;
  first_dispatched_at?: string;
  dispatched_at?: string;
  received_at?: string;
  last_activity_at?: string;
  settled_at?: string;
  cancel_asked_at?: string;
  cancel_confirmed?: boolean;
  error?: { kind?: string; message?: string; code?: string };
  progress?: { percent?: number; note?: string };
  note?: string;
  late: boolean;
  timeline?: Entry[];
  timeline_cut?: number;
}

export interface Queue {
  counts: Record<string, number>;
  recent: Action[];
  breakers: Breaker[];
  paused: Pause[];
  orphans: number;
  machines: number;
  server_time: string;
}

export interface Label {
  session_id?: string;
  replay_id?: string;
  status: string;
  closed: boolean;
  counts: Record<string, number>;
  paused: Pause[];
}

export interface Percentiles {
  p50: (number | null)[];
  p99: (number | null)[];
  all_p50: number | null;
  all_p99: number | null;
}

export interface Stats {
  server_time: string;
  started_at: string;
  step_s: number;
  since: string;
  pushed: number[];
  deliveries: number[];
  resends: number[];
  give_ups: number[];
  done: number[];
  failed: number[];
  push_to_bytes_ms: Percentiles | null;
  bytes_to_ack_ms: Percentiles | null;
}

export interface DeadGroup {
  state: string;
  reason: string;
  count: number;
  redriven: number;
  first_at: string;
  last_at: string;
  sample?: { kind?: string; message?: string; code?: string };
  machines: { machine_id: string; count: number }[];
  other_machines?: number;
  action_ids: string[];
}

export interface Dead {
  groups: DeadGroup[];
  counts: Record<string, number>;
  partial: boolean;
  last_day: number;
  last_hour: number;
  server_time: string;
}

export interface Page<T> {
  items: T[];
  next_cursor?: string;
}

export interface Change {
  action_id?: string;
  machine_id?: string;
  state?: string;
  event: string;
  detail?: string;
  at: string;
}
