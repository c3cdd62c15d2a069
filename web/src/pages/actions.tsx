// Which action? A list of any length, read page by page as it is scrolled.
import { useEffect } from 'preact/hooks';
import { may, seg } from '../api.ts';
import { count } from '../clock.ts';
import { selected } from '../feed.ts';
import { listPath, mostRows, useList } from '../list.ts';
import { useLive } from '../live.ts';
import { Ago, Budget, Copy, Empty, Line, State } from '../parts/bits.tsx';
import { askAll, askCloseLabel, askEach, askPause, askCancel, askRedrive, askResume, canCancel, canRedrive, notNow } from '../parts/asks.ts';
import { Do, say } from '../parts/dialog.tsx';
import { SearchBox } from '../parts/searchbox.tsx';
import { Table, type Column } from '../parts/table.tsx';
import { show } from '../acts.ts';
import { href, route } from '../route.ts';
import { parse, selections, type Search } from '../search.ts';
import type { Action, Label } from '../types.ts';
import { use } from '../use.ts';
import { actionStates, cause, says } from '../words.ts';

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
          keys={may('operate') ? (a) => ({
            c: () => (canCancel(a.state) ? askCancel(a) : say(notNow('cancel', a.state), true)),
            r: () => (canRedrive(a.state) ? askRedrive(a) : say(notNow('redrive', a.state), true)),
          }) : undefined}
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
      <span class="buttons">
        {held ? (
          <Do cls="small" on={() => askResume(scope, id, l.paused.map((p) => cause(p.cause)).join(', '))}>Resume the {scope}</Do>
        ) : (
          <Do cls="small" on={() => askPause(scope, id)}>Pause the {scope}</Do>
        )}
        <Do cls="small danger" on={() => askCloseLabel(scope, id, open)}>Cancel the {scope}…</Do>
      </span>
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
