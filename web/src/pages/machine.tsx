// One machine: how it is, what waits for it, what it has, and what can be done.
import { may, seg, url } from '../api.ts';
import { count, moment, now, span } from '../clock.ts';
import { agentLine, show } from '../acts.ts';
import { reuse, useLive } from '../live.ts';
import { Ago, Budget, Copy, Empty, Facts, Fault, Icon, Line, Num, State } from '../parts/bits.tsx';
import { askCloseBreaker, askCredit, askForget, askPause, askPush, askResume, askCancel, canCancel } from '../parts/asks.ts';
import { Do } from '../parts/dialog.tsx';
import { Bars } from '../parts/spark.tsx';
import { href, route } from '../route.ts';
import type { Action, Machine, Page, Stats } from '../types.ts';
import { use } from '../use.ts';
import { cause, says, settledStates, waits } from '../words.ts';

const listed = 25;

function useActions(machine: string, states: string[]) {
  return useLive<Page<Action>>(url('/v1/actions', { machine_id: machine, state: states, limit: listed }), {
    wants: (f) => f.machines.has(machine),
    merge: (old, fresh) => ({ ...fresh, items: reuse(old.items, fresh.items, (a) => a.action_id) }),
  });
}

export function MachinePage() {
  const id = route.value.id;
  const live = useLive<Machine>(`/v1/machines/${seg(id)}`, { wants: (f) => f.machines.has(id), every: 10_000 });
  const stats = useLive<Stats>(url('/v1/stats', { machine_id: id }), { wants: (f) => f.machines.has(id) && f.events.has('dispatched'), every: 60_000 });
  const waiting = useActions(id, ['queued', 'scheduled']);
  const flight = useActions(id, ['in_flight', 'in_doubt']);
  const recent = useActions(id, settledStates);
  const m = live.value;
  return (
    <>
      <p class="crumbs"><a href={href('fleet')}>Fleet</a></p>
      <div class="section-head">
        <h1>{id}</h1>
        {m && <State of={m.state} />}
        {m?.since && <span class="muted">for <Ago at={m.since} /></span>}
        {m && <Acts m={m} />}
      </div>
      {live.error?.status === 404 ? <Empty title={`There is no machine ${id}.`}><p>It appears when its agent subscribes:</p><Line text={agentLine(id)} /></Empty> : <Fault of={live} what="The machine" />}
      {m && <Warnings m={m} />}
      {m && <Next m={m} />}
      {m && <About m={m} />}
      {m && stats.value && (
        <Bars
          title="Deliveries"
          since={stats.value.since}
          step={stats.value.step_s}
          series={[
            { name: 'sent', values: stats.value.deliveries.map((n, i) => n - stats.value!.resends[i]!), cls: 'bar-sent' },
            { name: 'sent again', values: stats.value.resends, cls: 'bar-again' },
            { name: 'given up', values: stats.value.give_ups, cls: 'bar-gone' },
          ]}
        />
      )}
      <div class="columns">
        <Rows title="In flight" live={flight} none="Nothing is in flight." more={href('actions', undefined, { q: `machine:${id} state:in_flight,in_doubt` })} cell={(a) => (
          <>
            <State of={a.state} />
            <span class="muted">{a.received_at ? <>in work <Ago at={a.received_at} /></> : <>sent <Ago at={a.dispatched_at} after=" ago" />, not yet acked</>}</span>
            {a.progress?.percent != null && <progress max={100} value={a.progress.percent} aria-label={`progress of ${a.action_id}`} />}
          </>
        )} />
        <Rows title="Queue" note="newest first; it goes out oldest first" live={waiting} none="Nothing waits." more={href('actions', undefined, { q: `machine:${id} state:queued,scheduled` })} cell={(a) => (
          <>
            <State of={a.state} />
            {a.deliveries > 0 && <Budget n={a.resent_count} of={a.max_resends} title="resent" />}
            <span class="muted"><Ago at={a.created_at} after=" old" />{a.session_id ? `, ${a.session_id}` : ''}</span>
          </>
        )} />
        <Rows title="Settled" live={recent} none="Nothing has been settled yet." more={href('actions', undefined, { q: `machine:${id} state:${settledStates.join(',')}` })} cell={(a) => (
          <>
            <State of={a.state} />
            <span class="muted"><Ago at={a.settled_at} after=" ago" />{a.error?.kind ? `, ${a.error.kind}` : ''}</span>
          </>
        )} />
      </div>
    </>
  );
}

function Acts({ m }: { m: Machine }) {
  const id = m.machine_id;
  return (
    <span class="buttons">
      <Do power="push" on={() => askPush(id)}>Push a test action</Do>
      {m.paused.length ? (
        <Do cls="primary" on={() => askResume('machine', id, m.paused.map((p) => cause(p.cause)).join(', '))}>Resume</Do>
      ) : (
        <Do on={() => askPause('machine', id)}>Pause</Do>
      )}
      <Do on={() => askCredit(id, m.max_in_flight)}>Credit…</Do>
      {m.state === 'offline' && <Do cls="danger" on={() => askForget(id)}>Forget…</Do>}
      <Copy text={show(`/v1/machines/${seg(id)}`)} label="curl" />
    </span>
  );
}

/** Why its queue stands, and what somebody can do who stands before the machine. */
function Next({ m }: { m: Machine }) {
  const here = m.state === 'online';
  if (here && (!m.queued || m.paused.length)) return null;
  return (
    <div class={`note ${here ? '' : 'warn'}`}>
      <Icon name={here ? 'queued' : m.state} /> <span>{m.paused.length ? '' : m.explanation}{here ? '' : ' On the machine, look at its agent’s log, or start it:'}</span>
      {!here && <Line text={agentLine(m.machine_id)} />}
    </div>
  );
}

function Warnings({ m }: { m: Machine }) {
  return (
    <>
      {m.contested && (
        <p class="note bad"><Icon name="alert" /> <span>Two agents claim to be this machine, from {m.contested.addresses.join(' and ')}, since <Ago at={m.contested.since} after=" ago" />. Stop one of them.</span></p>
      )}
      {m.paused.map((p) => (
        <p key={p.cause + p.id} class="note warn">
          <Icon name="paused" /> <span>Paused by {cause(p.cause)}{p.by ? ` (${p.by})` : ''} <Ago at={p.since} after=" ago" />{p.note && <>: <bdi>{p.note}</bdi></>}{p.until ? `; until ${moment(p.until)}` : ''}</span>
        </p>
      ))}
      {m.breakers.map((b) => (
        <p key={b.target} class="note bad">
          <Icon name="breaker" /> <span>The breaker {b.target ? `of ${b.target} ` : ''}is {says(b.state)}{b.reason ? ` (${b.reason})` : ''}{b.until ? <Until at={b.until} /> : ', until somebody closes it'}.</span>
          <Do cls="small" on={() => askCloseBreaker({ ...b, machine_id: b.target?.startsWith('shared/') ? b.machine_id : m.machine_id })}>Close the breaker</Do>
        </p>
      ))}
    </>
  );
}

function Until({ at }: { at: string }) {
  use(now);
  return <>, probe in {span(Date.parse(at) - now.value)}</>;
}

function About({ m }: { m: Machine }) {
  return (
    <Facts
      rows={[
        ['Credit', <>{m.in_flight} of {m.max_in_flight} in flight{m.credit_reason && <>: <bdi>{m.credit_reason}</bdi></>}</>],
        ['Queued', <Num n={m.queued} />],
        ['Oldest waits', m.oldest_queued_age_s !== undefined ? span(m.oldest_queued_age_s * 1000) : undefined],
        ['Last seen', m.last_seen_at ? <Ago at={m.last_seen_at} after=" ago" /> : undefined],
        ['Address', m.address],
        ['Instance', m.instance_id],
        ['Stream', m.stream_id],
        ['Last event id', m.last_event_id ? count(m.last_event_id) : undefined],
      ]}
    />
  );
}

interface RowsProps {
  title: string;
  note?: string;
  live: ReturnType<typeof useActions>;
  none: string;
  more: string;
  cell: (a: Action) => preact.ComponentChildren;
}

function Rows({ title, note, live, none, more, cell }: RowsProps) {
  const items = live.value?.items;
  return (
    <section>
      <div class="section-head">
        <h2>{title}</h2>
        {note && <small class="muted">{note}</small>}
      </div>
      <Fault of={live} what={title} />
      {items && !items.length && <p class="none">{none}</p>}
      <ul class="rows">
        {items?.map((a) => (
          <li key={a.action_id}>
            <a href={href('action', a.action_id)}>{a.action_id}</a>
            {cell(a)}
            {may('operate') && canCancel(a.state) && <button type="button" class="small quiet" onClick={() => askCancel(a)}>Cancel</button>}
            {a.waiting_for && <span class="muted">{waits(a.waiting_for, now.peek())}</span>}
          </li>
        ))}
      </ul>
      {live.value?.next_cursor && <a href={more}>All of them</a>}
    </section>
  );
}
