// Which action? A list of any length, read page by page as it is scrolled.
import { useEffect, useRef, useState } from 'preact/hooks';
import { get, may, seg, send, url, Failure } from '../api.ts';
import { count } from '../clock.ts';
import { onFrame, selected, type Frame } from '../feed.ts';
import { useLive } from '../live.ts';
import { Ago, Budget, Copy, Empty, Line, State } from '../parts/bits.tsx';
import { askAll, askCloseLabel, askEach, askPause, askCancel, askRedrive, askResume, canCancel, canRedrive, notNow } from '../parts/asks.ts';
import { say } from '../parts/dialog.tsx';
import { SearchBox } from '../parts/searchbox.tsx';
import { Table, type Column } from '../parts/table.tsx';
import { show } from '../acts.ts';
import { href, route } from '../route.ts';
import { parse, selections, type Search } from '../search.ts';
import { add, merge, trim, type List } from '../pages.ts';
import type { Action, Label, Page } from '../types.ts';
import { use } from '../use.ts';
import { actionStates, cause, says } from '../words.ts';

const pageSize = 100;
const mostRows = 20_000;

const columns: Column[] = [
  { name: 'action', label: 'Action', cls: 'wide' },
  { name: 'state', label: 'State', cls: 'half' },
  { name: 'machine', label: 'Machine', cls: 'half' },
  { name: 'type', label: 'Type', cls: 'half' },
  { name: 'lane', label: 'Session', cls: 'half' },
  { name: 'resent', label: 'Resent', cls: 'num' },
  { name: 'attempts', label: 'Attempts', cls: 'num' },
  { name: 'age', label: 'Age', cls: 'num' },
  { name: 'why', label: 'Error', cls: 'wide' },
];

function listPath(s: Search, cursor: string) {
  return url('/v1/actions', { state: s.states, machine_id: s.machine_id, session_id: s.session_id, replay_id: s.replay_id, type: s.type, label: s.labels, limit: pageSize, cursor });
}

async function readPage(s: Search, cursor: string, signal: AbortSignal): Promise<Page<Action>> {
  if (!s.id) return get<Page<Action>>(listPath(s, cursor), signal);
  try {
    const text = await send('GET', `/v1/actions/${seg(s.id)}`, undefined, signal);
    return { items: [JSON.parse(text) as Action] };
  } catch (e) {
    if (e instanceof Failure && e.status === 404) return { items: [] };
    throw e;
  }
}

/** A list by cursor that stays true: its first page and the pages in sight are read again. */
function useList(q: string) {
  const [list, setList] = useState<List<Action> | null>(null);
  const [error, setError] = useState<Failure | undefined>();
  const [busy, setBusy] = useState(true);
  const range = useRef<[number, number]>([0, 50]);
  const reach = useRef<() => void>(() => {});
  const again = useRef<() => void>(() => {});
  useEffect(() => {
    const s = parse(q);
    const cut = new AbortController();
    let current: List<Action> | null = null;
    const put = (l: List<Action>) => setList((current = l));
    const extend = async () => {
      while (current?.next && current.rows.length < Math.min(range.current[1] + pageSize / 2, mostRows)) {
        const cursor = current.next;
        const page = await readPage(s, cursor, cut.signal);
        put(add(current, cursor, page));
      }
    };
    const renew = async () => {
      const first = await readPage(s, '', cut.signal);
      put(trim(merge(current, '', first, (a) => a.action_id), range.current[1], 1000));
      for (const cursor of segmentsInSight(current!, range.current)) {
        if (cursor) put(merge(current, cursor, await readPage(s, cursor, cut.signal), (a) => a.action_id));
      }
      await extend();
    };
    // One request at a time; what is asked for meanwhile is done once, after it.
    let running = false;
    let next: 'renew' | 'extend' | '' = '';
    const work = async (what: 'renew' | 'extend') => {
      if (running) {
        if (next !== 'renew') next = what;
        return;
      }
      running = true;
      setBusy(true);
      try {
        await (what === 'renew' ? renew() : extend());
        if (!cut.signal.aborted) setError(undefined);
      } catch (e) {
        if (!cut.signal.aborted) setError(e instanceof Failure ? e : new Failure(0, (e as Error).message));
      }
      running = false;
      if (cut.signal.aborted) return;
      setBusy(false);
      const then = next;
      next = '';
      if (then) void work(then);
    };
    const refresh = () => work('renew');
    reach.current = () => void work('extend');
    again.current = () => void refresh();
    setList(null);
    void refresh();
    const off = onFrame((f: Frame) => {
      if (f.all || f.n > 0) void refresh();
    });
    return () => {
      cut.abort();
      off();
    };
  }, [q]);
  return {
    list, error, busy,
    refresh: () => again.current(),
    onRange: (from: number, to: number) => {
      range.current = [from, to];
      reach.current();
    },
  };
}

function segmentsInSight(l: List<Action>, [from, to]: [number, number]): string[] {
  let at = 0;
  return l.segments
    .filter((s) => {
      const begins = at;
      at += s.items.length;
      return begins < to && at > from;
    })
    .map((s) => s.cursor);
}

const chips: [string, string][] = [
  ['state:open', 'unsettled'],
  ...actionStates.map((s): [string, string] => [`state:${s}`, says(s)]),
  ['state:dead', 'dead letters'],
];

export function ActionsPage() {
  use(selected);
  const q = route.value.query.get('q') ?? '';
  const s = parse(q);
  const { list, error, busy, refresh, onRange } = useList(q);
  useEffect(() => () => void (selected.value = new Set()), [q]);
  const rows = list?.rows ?? [];
  return (
    <>
      <div class="section-head">
        <h1>Actions</h1>
        <span class="muted">
          {list ? `${count(rows.length)}${list.next ? '+' : ''}${q ? ' match' : ''}, newest first` : ''}
          {rows.length >= mostRows ? '; narrow the search to see others' : ''}
        </span>
      </div>
      <SearchBox text={q} label="Search actions" placeholder="an action's id, state:failed machine:win-1 session:s1 type:click label:k:v  ( / )" chips={chips} wrong={s.wrong} />
      {s.session_id && <LabelBar scope="session" id={s.session_id} />}
      {s.replay_id && <LabelBar scope="replay" id={s.replay_id} />}
      {error && (
        <div class="fault" role="alert">
          <span>{list ? 'The actions could not be read again; this is how they were: ' : 'The actions could not be read: '}{error.message}.</span>
          <button type="button" class="small" onClick={refresh}>Try again</button>
        </div>
      )}
      {may('operate') && <Bulk s={s} q={q} rows={rows} />}
      {rows.length > 0 && (
        <Table<Action>
          caption="Actions"
          columns={columns}
          total={rows.length}
          item={(i) => rows[i]}
          id={(a) => a.action_id}
          cells={cells}
          onRange={onRange}
          selected={may('operate') ? selected.value : undefined}
          onSelect={may('operate') ? (ids) => (selected.value = ids) : undefined}
          keys={(a) => ({
            c: () => (canCancel(a.state) ? askCancel(a) : say(notNow('cancel', a.state), true)),
            r: () => (canRedrive(a.state) ? askRedrive(a) : say(notNow('redrive', a.state), true)),
          })}
          cardHeight={172}
        />
      )}
      {!list && busy && !error && <p class="muted">Reading…</p>}
      {list && rows.length === 0 && (q ? <Empty title="No action matches this search." /> : <NoAction />)}
    </>
  );
}

function cells(a: Action) {
  const error = a.error ? `${a.error.kind ?? ''}${a.error.message ? `: ${a.error.message}` : ''}` : '';
  return [
    <a key="id" href={href('action', a.action_id)}>{a.action_id}</a>,
    <span key="s" class="nowrap"><State of={a.state} />{a.late && <small class="badge">late</small>}</span>,
    <a key="m" class="soft" href={href('machine', a.machine_id)}>{a.machine_id}</a>,
    <span key="t">{a.type}</span>,
    a.session_id ? <a key="l" class="soft" href={href('actions', undefined, { q: `session:${a.session_id}` })}>{a.session_id}</a> : <span class="none">–</span>,
    <Budget key="r" n={a.resent_count} of={a.max_resends} title={`${a.resends.timeout} by timeout, ${a.resends.disconnect} by disconnect; ${a.deliveries} deliveries in all`} />,
    <Budget key="a" n={a.attempts} of={a.max_attempts} title={`${a.attempts} failed executions; ${a.transient_attempts} for want of a service`} />,
    <Ago key="g" at={a.created_at} />,
    error ? <span key="e" class="clip" title={error}>{error}</span> : <span class="none">–</span>,
  ];
}

function LabelBar({ scope, id }: { scope: 'session' | 'replay'; id: string }) {
  const live = useLive<Label>(`/v1/${scope}s/${seg(id)}`, { every: 15_000 });
  const l = live.value;
  if (!l) return live.error ? <p class="muted">{live.error.message}</p> : null;
  const open = ['scheduled', 'queued', 'in_flight', 'in_doubt'].reduce((n, s) => n + (l.counts[s] ?? 0), 0);
  const held = l.status !== 'active';
  return (
    <div class="label-bar">
      <span>{scope} <strong>{id}</strong></span>
      <State of={l.status} />
      {l.paused.map((p) => <span key={p.cause + p.machine_id} class="muted">{cause(p.cause)}{p.machine_id ? ` on ${p.machine_id}` : ''}{p.note ? `: ${p.note}` : ''}</span>)}
      <span class="muted">{count(open)} unsettled, {count(l.counts.done ?? 0)} done</span>
      {may('operate') && (
        <span class="buttons">
          {held ? (
            <button type="button" class="small" onClick={() => askResume(scope, id, l.paused.map((p) => cause(p.cause)).join(', '))}>Resume the {scope}</button>
          ) : (
            <button type="button" class="small" onClick={() => askPause(scope, id)}>Pause the {scope}</button>
          )}
          <button type="button" class="small danger" onClick={() => askCloseLabel(scope, id, open)}>Cancel the {scope}…</button>
        </span>
      )}
    </div>
  );
}

/** Acts on what is selected, or on all that matches. */
function Bulk({ s, q, rows }: { s: Search; q: string; rows: Action[] }) {
  const ids = [...selected.value];
  const byID = new Map(rows.map((a) => [a.action_id, a]));
  const fit = (can: (state: string) => boolean) => ids.filter((id) => can(byID.get(id)?.state ?? ''));
  const all = selections(s);
  const onAll = (verb: 'cancel' | 'redrive') => {
    if (typeof all === 'string') return say(all, true);
    askAll(verb, all, `“${q}”`).catch((e: Error) => say(e.message, true));
  };
  const toCancel = fit(canCancel);
  const toRedrive = fit(canRedrive);
  if (!ids.length && (!q || typeof all === 'string')) return null;
  return (
    <div class={`bulk ${ids.length ? 'some' : 'idle'}`} role="group" aria-label="Acts on several actions">
      {ids.length > 0 ? (
        <>
          <strong>{count(ids.length)} selected</strong>
          <button type="button" class="danger" disabled={!toCancel.length} onClick={() => askEach('cancel', toCancel)}>Cancel {count(toCancel.length)}</button>
          <button type="button" disabled={!toRedrive.length} onClick={() => askEach('redrive', toRedrive)}>Redrive {count(toRedrive.length)}</button>
          <button type="button" class="quiet" onClick={() => (selected.value = new Set())}>Deselect</button>
        </>
      ) : (
        <>
          <span class="muted">All that match:</span>
          <button type="button" onClick={() => onAll('redrive')}>Count, then redrive…</button>
          <button type="button" class="danger" onClick={() => onAll('cancel')}>Count, then cancel…</button>
          <Copy text={show(listPath(s, ''))} label="copy as curl" />
        </>
      )}
    </div>
  );
}

function NoAction() {
  return (
    <Empty title="No action has been pushed yet.">
      <p>Push one to any machine, known or not; it waits until that machine comes:</p>
      <Line text={`pushctl -s ${location.origin} push my-machine '{"hello":1}' --type test`} />
      <p>Or with curl:</p>
      <Line text={`curl -sS ${location.origin}/v1/actions -H 'Content-Type: application/json' -d '{"machine_id":"my-machine","type":"test","payload":{"hello":1}}'`} />
    </Empty>
  );
}
