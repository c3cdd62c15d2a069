// Is the fleet well? Five seconds must be enough to know.
import { useState } from 'preact/hooks';
import { agentLine, streamLine } from '../acts.ts';
import { get, url } from '../api.ts';
import { count, span } from '../clock.ts';
import { log } from '../feed.ts';
import { reuse, useLive } from '../live.ts';
import { fleetTotals, overview } from '../overview.ts';
import { Ago, Copy, Empty, Fault, Icon, Line, Num, State } from '../parts/bits.tsx';
import { askPush } from '../parts/asks.ts';
import { Do } from '../parts/dialog.tsx';
import { SearchBox } from '../parts/searchbox.tsx';
import { Spark } from '../parts/spark.tsx';
import { Table, type Column } from '../parts/table.tsx';
import { href, route, setQuery } from '../route.ts';
import type { Fleet, FleetRow, Stats } from '../types.ts';
import { use } from '../use.ts';
import { says, trouble } from '../words.ts';

const pageSize = 150;
const step = 50;

const columns: Column[] = [
  { name: 'machine', label: 'Machine', cls: 'wide', sort: 'id' },
  { name: 'state', label: 'State', cls: 'half', sort: 'state' },
  { name: 'why', label: 'Needs', cls: 'wide', sort: 'trouble' },
  { name: 'queued', label: 'Queued', cls: 'num', sort: 'queued' },
  { name: 'flight', label: 'In flight', cls: 'num', sort: 'in_flight' },
  { name: 'orphans', label: 'Orphans', cls: 'num', sort: 'orphans' },
  { name: 'ack', label: 'Last ack', cls: 'num', sort: 'last_ack' },
  { name: 'rtt', label: 'To ack', cls: 'num' },
  { name: 'hour', label: 'Last hour', cls: 'hour' },
];

function fleetPath(text: string, sort: string, offset: number) {
  const words = text.split(/\s+/).filter(Boolean);
  const of = (key: string) => words.find((w) => w.startsWith(key))?.slice(key.length);
  return url('/v1/fleet', {
    q: words.filter((w) => !/^(state|has):/.test(w)).join(' '),
    state: of('state:'),
    has: of('has:'),
    sort,
    offset: offset || undefined,
    limit: pageSize,
  });
}

interface Window extends Fleet {
  offset: number;
}

async function readWindow(path: string, signal: AbortSignal): Promise<Window> {
  const fleet = await get<Fleet>(path, signal);
  return { ...fleet, offset: Number(new URLSearchParams(path.split('?')[1]).get('offset') ?? 0) };
}

export function FleetPage() {
  const q = route.value.query.get('q') ?? '';
  const sort = route.value.query.get('sort') ?? 'trouble';
  const [offset, setOffset] = useState(0);
  const live = useLive<Window>(fleetPath(q, sort, offset), {
    keep: true,
    every: 10_000,
    read: readWindow,
    merge: (old, fresh) => ({ ...fresh, items: reuse(old.items, fresh.items, (m) => m.machine_id) }),
  });
  const fleet = live.value;
  const item = (i: number) => (fleet ? fleet.items[i - fleet.offset] : undefined);
  const onRange = (from: number) => setOffset(Math.max(0, Math.floor(from / step) * step - step));
  return (
    <>
      <h1>Fleet</h1>
      <Tiles />
      {!q && sort === 'trouble' && offset === 0 && fleet && <Attention rows={fleet.items.filter((m) => m.troubles?.length).slice(0, 5)} all={fleet.troubled} />}
      <section aria-labelledby="machines">
        <div class="section-head">
          <h2 id="machines">Machines</h2>
          <span class="muted">{fleet ? `${count(fleet.total)}${fleet.total !== fleet.machines ? ` of ${count(fleet.machines)}` : ''}, ${sort === 'trouble' ? 'trouble first' : `by ${says(sort)}`}` : ''}</span>
          <Do power="push" cls="push" on={() => askPush('')}>Push a test action</Do>
        </div>
        <SearchBox
          text={q}
          label="Search machines"
          placeholder="part of an id, state:offline, has:orphans  ( / )"
          chips={[['has:trouble', 'needs attention'], ['state:online', 'online'], ['state:offline', 'offline'], ['has:in_flight', 'in flight'], ['has:queued', 'queued'], ['has:orphans', 'orphans'], ['has:pause', 'paused'], ['has:breaker', 'breaker']]}
        />
        <Fault of={live} what="The machines" />
        {fleet && fleet.total > 0 && (
          <Table<FleetRow>
            caption="Machines"
            columns={columns}
            total={fleet.total}
            item={item}
            id={(m) => m.machine_id}
            cells={cells}
            onRange={onRange}
            sort={sort}
            onSort={(by) => setQuery({ sort: by === 'trouble' ? '' : by })}
          />
        )}
        {fleet && fleet.total === 0 && fleet.machines > 0 && <Empty title="No machine matches this search." />}
        {fleet && fleet.machines === 0 && <NoMachine />}
        {!fleet && live.loading && <p class="muted">Reading…</p>}
      </section>
      <JustNow />
    </>
  );
}

function cells(m: FleetRow) {
  return [
    <a key="id" href={href('machine', m.machine_id)}>{m.machine_id}</a>,
    <span key="s" class="nowrap"><State of={m.state} /> <small class="muted"><Ago at={m.since} /></small></span>,
    m.troubles?.length ? <span key="t" class="why"><Icon name="alert" /> {trouble(m.troubles[0]!)}</span> : m.paused?.length ? <State of="paused" /> : <span class="none">–</span>,
    <Num key="q" n={m.queued} />,
    <span key="f">{m.in_flight === 0 ? <span class="none">0</span> : count(m.in_flight)}<small class="muted">/{m.max_in_flight}</small></span>,
    <Num key="o" n={m.orphans} tone="warn" />,
    <Ago key="a" at={m.last_ack_at} />,
    m.ack_ms === undefined ? <span class="none">–</span> : <span class="nowrap">{span(m.ack_ms)}</span>,
    m.hour ? <Spark sent={m.hour.deliveries} lost={m.hour.lost} /> : <span class="none">–</span>,
  ];
}

function Tile({ label, value, more, to, tone, children }: { label: string; value: preact.ComponentChildren; more?: string; to: string; tone?: string; children?: preact.ComponentChildren }) {
  return (
    <a class={`tile ${tone ?? ''}`} href={to}>
      <span class="tile-label">{label}</span>
      <span class="tile-value">{value}</span>
      <span class="tile-more">{more ?? '\u00a0'}</span>
      {children}
    </a>
  );
}

function Tiles() {
  const stats = useLive<Stats>('/v1/stats', { every: 30_000, wants: () => false });
  use(overview, fleetTotals);
  const o = overview.value;
  const f = fleetTotals.value;
  const c = (...states: string[]) => states.reduce((n, s) => n + (o?.counts[s] ?? 0), 0);
  const dead = c('failed', 'gave_up', 'expired');
  const sum = (v?: number[]) => (v ?? []).reduce((a, b) => a + b, 0);
  const lost = sum(stats.value?.resends);
  const oldest = f?.oldest_unacked;
  const online = f?.states.online ?? 0;
  const away = f ? f.machines - online : 0;
  const breakers = o?.breakers.length ?? 0;
  const holds = o?.paused.length ?? 0;
  const known = (n: number) => (o ? count(n) : '–');
  return (
    <section class="tiles" aria-label="At a glance">
      <Tile label="Connected" value={f ? `${count(online)} / ${count(f.machines)}` : '–'} more={away ? `${count(away)} not online` : f?.machines ? 'all online' : undefined} tone={f?.troubled ? 'warn' : ''} to={href('fleet', undefined, { q: 'state:online' })} />
      <Tile label="In flight" value={known(c('in_flight'))} more={`${known(c('queued', 'scheduled'))} waiting`} to={href('actions', undefined, { q: 'state:in_flight' })}>
        {stats.value && <Spark sent={stats.value.deliveries} lost={stats.value.resends} />}
      </Tile>
      <Tile label="Oldest unacked" value={oldest ? <Ago at={oldest.sent_at} /> : '–'} more={`${f ? count(f.unacked) : '–'} sent and not acked`} to={oldest ? href('action', oldest.action_id) : href('actions', undefined, { q: 'state:in_flight' })} />
      <Tile label="Orphans" value={known(o?.orphans ?? 0)} more={`${count(lost)} resent in the last hour`} tone={o?.orphans ? 'warn' : ''} to={href('fleet', undefined, { q: 'has:orphans' })} />
      <Tile label="In doubt" value={known(c('in_doubt'))} more={c('in_doubt') ? 'an operator must say' : undefined} tone={c('in_doubt') ? 'warn' : ''} to={href('actions', undefined, { q: 'state:in_doubt' })} />
      <Tile label="Given up" value={known(dead)} more={`${count(sum(stats.value?.give_ups))} in the last hour`} tone={dead ? 'bad' : ''} to={href('dead')} />
      <Tile label="Held back" value={known(breakers + holds)} more={`breakers ${count(breakers)}, pauses ${count(holds)}`} tone={breakers ? 'bad' : holds ? 'warn' : ''} to={href('system')} />
    </section>
  );
}

function Attention({ rows, all }: { rows: FleetRow[]; all: number }) {
  if (!rows.length) return null;
  return (
    <section class="attention" aria-labelledby="attention">
      <h2 id="attention">Needs attention</h2>
      <ul>
        {rows.map((m) => (
          <li key={m.machine_id}>
            <a href={href('machine', m.machine_id)}>{m.machine_id}</a>
            <span class="nowrap">
              <State of={m.state} /> <small class="muted"><Ago at={m.since} /></small>
            </span>
            <span class="why">
              {m.troubles!.map((t) => trouble(t)).join('; ')}
              <span class="muted">
                {' '}({count(m.queued)} queued, {count(m.in_flight)} in flight{m.orphans ? `, ${count(m.orphans)} orphans` : ''}
                {m.troubles!.includes('silent') && m.last_seen_at ? <>, last heard <Ago at={m.last_seen_at} after=" ago" /></> : ''})
              </span>
            </span>
          </li>
        ))}
      </ul>
      {all > rows.length && <a href={href('fleet', undefined, { q: 'has:trouble' })}>All {count(all)}</a>}
    </section>
  );
}

function JustNow() {
  use(log);
  const lines = log.value.slice(0, 8);
  if (!lines.length) return null;
  return (
    <section class="just-now" aria-labelledby="just-now">
      <h2 id="just-now">Just now</h2>
      <ol>
        {lines.map((c, i) => (
          <li key={`${c.at}${c.action_id}${c.event}${i}`}>
            <small class="muted"><Ago at={c.at} after=" ago" /></small>
            {c.machine_id && <a href={href('machine', c.machine_id)}>{c.machine_id}</a>}
            {c.action_id && <a href={href('action', c.action_id)}>{c.action_id}</a>}
            <span>{says(c.event)}{c.detail ? `: ${c.detail}` : ''}</span>
          </li>
        ))}
      </ol>
    </section>
  );
}

function NoMachine() {
  const stream = streamLine('my-machine');
  return (
    <Empty title="No machine has subscribed yet.">
      <p>A machine is an agent that holds a stream open. Ours does the work too; docs/agents.md has its settings:</p>
      <Line text={agentLine('my-machine')} />
      <p>To see one appear here at once, in a shell:</p>
      <Line text={stream} />
      <p>On Windows, in PowerShell:</p>
      <Line text={stream.replace('curl', 'curl.exe').replaceAll("'", '"').replace('$', '$env:')} />
      <p>Then push something to it and watch it arrive:</p>
      <Line text={`pushctl -s ${location.origin} push my-machine '{"hello":1}'`} />
      <p>Or see the whole story with three simulated machines in a minute: <Copy text="pushctl demo" label="copy: pushctl demo" /></p>
    </Empty>
  );
}
