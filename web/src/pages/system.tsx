// The server itself, the last hour, and what is held back.
import { may, send, session } from '../api.ts';
import { count, now, span } from '../clock.ts';
import { curl } from '../acts.ts';
import { useLive } from '../live.ts';
import { overview, overviewError } from '../overview.ts';
import { Ago, Copy, Facts, Fault, Icon, State } from '../parts/bits.tsx';
import { askCloseBreaker, askResume } from '../parts/asks.ts';
import { Do } from '../parts/dialog.tsx';
import { Bars, Latencies } from '../parts/spark.tsx';
import { href } from '../route.ts';
import type { Pause, Stats } from '../types.ts';
import { use } from '../use.ts';
import { cause, says } from '../words.ts';
import { Tokens } from './tokens.tsx';

interface Watchdog {
  watchdog: {
    orphans_detected_total: number;
    orphans_resent_total: number;
    orphans_giveup_total: number;
    scans_total: number;
    scans_failed_total: number;
    last_scan_ts: string | null;
    last_scan_duration_ms: number;
  };
}

/** The few gauges of /metrics that are nowhere else. */
async function readMetrics(path: string, signal: AbortSignal): Promise<Record<string, number>> {
  const text = await send('GET', path, undefined, signal);
  const out: Record<string, number> = {};
  for (const line of text.split('\n')) {
    const m = /^(pushd_\w+) (\S+)$/.exec(line);
    if (m) out[m[1]!] = Number(m[2]);
  }
  return out;
}

function size(bytes: number): string {
  const units = ['bytes', 'KiB', 'MiB', 'GiB', 'TiB'];
  let i = 0;
  while (bytes >= 1024 && i < units.length - 1) {
    bytes /= 1024;
    i++;
  }
  return `${i ? bytes.toFixed(1) : bytes} ${units[i]}`;
}

export function SystemPage() {
  const stats = useLive<Stats>('/v1/stats', { every: 5_000, wants: (f) => f.all });
  const dog = useLive<Watchdog>('/v1/watchdog/metrics', { every: 5_000, wants: (f) => f.all });
  const metrics = useLive('/metrics', { every: 5_000, wants: (f) => f.all, read: readMetrics });
  use(overviewError);
  const s = stats.value;
  const w = dog.value?.watchdog;
  const m = metrics.value ?? {};
  const n = (name: string) => (m[name] === undefined ? undefined : count(m[name]!));
  return (
    <>
      <h1>System</h1>
      {overviewError.value && <p class="fault" role="alert"><Icon name="alert" /><span>The overview could not be read: {overviewError.value}.</span></p>}
      <section aria-labelledby="hour">
        <h2 id="hour">Last hour</h2>
        <Fault of={stats} what="The last hour" />
        {s && <Charts s={s} />}
      </section>
      <Held />
      <section aria-labelledby="server">
        <h2 id="server">Server</h2>
        <Fault of={dog} what="The watchdog" />
        <Fault of={metrics} what="The metrics" />
        <Facts
          rows={[
            ['Version', session.value?.version],
            ['Up for', s && <Ago at={s.started_at} />],
            ['Streams', n('pushd_streams_open')],
            ['Polls', n('pushd_polls')],
            ['Dashboards', n('pushd_feed_viewers')],
            ['Takeovers', n('pushd_takeovers_total')],
            ['Refused subscriptions', n('pushd_subscriptions_refused_total')],
            ['Store', m.pushd_store_size_bytes === undefined ? undefined : size(m.pushd_store_size_bytes)],
            ['Commits', n('pushd_store_commits_total')],
            ['Watchdog scans', w && `${count(w.scans_total)}, ${count(w.scans_failed_total)} failed`],
            ['Last scan', w?.last_scan_ts ? <><Ago at={w.last_scan_ts} after=" ago" />, {span(w.last_scan_duration_ms)}</> : undefined],
            ['Orphans', w && `${count(w.orphans_detected_total)} found, ${count(w.orphans_resent_total)} resent, ${count(w.orphans_giveup_total)} given up`],
          ]}
        />
        <p class="links">
          <a href="/metrics" target="_blank" rel="noopener">metrics</a>
          <a href="/openapi.yaml" target="_blank" rel="noopener">openapi.yaml</a>
          <a href="/healthz" target="_blank" rel="noopener">healthz</a>
          <Copy text={curl({ method: 'GET', path: '/queue' })} label="copy: overview as curl" />
        </p>
      </section>
      <States />
      {may('admin') && <Tokens />}
    </>
  );
}

function Charts({ s }: { s: Stats }) {
  const times = { since: s.since, step: s.step_s };
  return (
    <div class="charts">
      <Bars {...times} title="Deliveries" series={[
        { name: 'sent', values: s.deliveries.map((d, i) => d - s.resends[i]!), cls: 'bar-sent' },
        { name: 'resent', values: s.resends, cls: 'bar-again' },
        { name: 'given up', values: s.give_ups, cls: 'bar-gone' },
      ]} />
      <Bars {...times} title="Verdicts" series={[
        { name: 'done', values: s.done, cls: 'bar-done' },
        { name: 'failed', values: s.failed, cls: 'bar-gone' },
      ]} />
      {s.push_to_bytes_ms && <Latencies {...times} title="Push to bytes" p50={s.push_to_bytes_ms.p50} p99={s.push_to_bytes_ms.p99} all50={s.push_to_bytes_ms.all_p50} all99={s.push_to_bytes_ms.all_p99} />}
      {s.bytes_to_ack_ms && <Latencies {...times} title="Bytes to first ack" p50={s.bytes_to_ack_ms.p50} p99={s.bytes_to_ack_ms.p99} all50={s.bytes_to_ack_ms.all_p50} all99={s.bytes_to_ack_ms.all_p99} />}
    </div>
  );
}

const scopes = ['machine', 'session', 'replay'] as const;

function Held() {
  use(overview);
  const o = overview.value;
  if (!o || (!o.breakers.length && !o.paused.length)) return null;
  const to = (p: Pause) => (p.scope === 'machine' ? href('machine', p.id) : href('actions', undefined, { q: `${p.scope}:${p.id}` }));
  return (
    <section aria-labelledby="held">
      <h2 id="held">Held back</h2>
      <ul class="rows">
        {o.breakers.map((b) => (
          <li key={`${b.machine_id} ${b.target}`}>
            <State of={b.state} word={`breaker ${says(b.state)}`} />
            <span>{b.target || 'everything'}{b.machine_id ? <> on <a href={href('machine', b.machine_id)}>{b.machine_id}</a></> : ', all machines'}</span>
            <span class="muted">{b.reason}{b.until ? <>, <Left at={b.until} /></> : ', until it is closed'}</span>
            <Do cls="small" on={() => askCloseBreaker(b)}>Close the breaker</Do>
          </li>
        ))}
        {o.paused.map((p) => (
          <li key={`${p.scope} ${p.id} ${p.machine_id} ${p.cause}`}>
            <State of={p.cause === 'need_help' ? 'paused_need_help' : 'paused'} />
            <span>{p.scope} <a href={to(p)}>{p.id}</a>{p.machine_id ? <> on <a href={href('machine', p.machine_id)}>{p.machine_id}</a></> : null}</span>
            <span class="muted">
              {cause(p.cause)}{p.by ? ` (${p.by})` : ''}{p.note ? `: ${p.note}` : ''}, <Ago at={p.since} after=" ago" />{p.until ? <>, <Left at={p.until} /></> : null}
              {p.action_id && <> after <a href={href('action', p.action_id)}>{p.action_id}</a></>}
            </span>
            {scopes.includes(p.scope as 'machine') && <Do cls="small" on={() => askResume(p.scope as 'machine', p.id, cause(p.cause))}>Resume</Do>}
          </li>
        ))}
      </ul>
    </section>
  );
}

function Left({ at }: { at: string }) {
  use(now);
  return <>{span(Date.parse(at) - now.value)} left</>;
}

function States() {
  use(overview);
  const o = overview.value;
  if (!o) return null;
  return (
    <section aria-labelledby="states">
      <h2 id="states">Actions by state</h2>
      <ul class="tags">
        {Object.entries(o.counts).map(([state, n]) => (
          <li key={state}>
            <a href={href('actions', undefined, { q: `state:${state}` })}>
              <State of={state} /> {n === 0 ? <span class="none">0</span> : count(n)}
            </a>
          </li>
        ))}
      </ul>
    </section>
  );
}
