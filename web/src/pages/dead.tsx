// What was given up, by reason: most have one cause, and one act mends them.
import { get, may } from '../api.ts';
import { count } from '../clock.ts';
import { reuse, useLive } from '../live.ts';
import { Ago, Copy, Empty, Fault, State } from '../parts/bits.tsx';
import { askAll, askEach } from '../parts/asks.ts';
import { Do, say } from '../parts/dialog.tsx';
import { bulk } from '../acts.ts';
import { href } from '../route.ts';
import type { Dead, DeadGroup } from '../types.ts';
import { deadStates, died, says } from '../words.ts';

const touching = ['gave_up', 'failed', 'expired', 'redriven', 'resolved', 'done', 'cancelled'];

export function DeadPage() {
  const live = useLive<Dead>('/v1/dead', {
    read: get,
    every: 5_000,
    wants: (f) => touching.some((e) => f.events.has(e)),
    merge: (old, fresh) => ({ ...fresh, groups: reuse(old.groups, fresh.groups, (g) => g.state + g.reason) }),
  });
  const d = live.value;
  const total = d ? deadStates.reduce((n, s) => n + (d.counts[s] ?? 0), 0) : 0;
  return (
    <>
      <div class="section-head">
        <h1>Given up</h1>
        {d && total > 0 && (
          <span class="muted">
            {count(total)}{d.partial ? '+' : ''} kept; {count(d.last_hour)} in the last hour, {count(d.last_day)} in the last day
          </span>
        )}
      </div>
      <Fault of={live} what="What was given up" />
      {d?.partial && <p class="note warn">There are more than were looked at; the counts below are of the newest.</p>}
      {d && total === 0 && <Empty title="Nothing was given up." />}
      {d && total > 0 && may('operate') && <ByState d={d} />}
      {d?.groups.map((g) => <Group key={g.state + g.reason} g={g} />)}
      {!d && live.loading && <p class="muted">Reading…</p>}
    </>
  );
}

/** What the server can redrive in one call. */
function ByState({ d }: { d: Dead }) {
  return (
    <div class="label-bar">
      <span class="muted">Redrive, each to the machine it was for:</span>
      <span class="buttons">
        {deadStates
          .filter((s) => d.counts[s])
          .map((s) => (
            <button key={s} type="button" onClick={() => askAll('redrive', [{ state: s }], `state:${s}`).catch((e: Error) => say(e.message, true))}>
              All {says(s)}…
            </button>
          ))}
        <Copy text={bulk('redrive', { state: 'gave_up' }, true).cli} label="copy as pushctl" />
      </span>
    </div>
  );
}

function Group({ g }: { g: DeadGroup }) {
  const some = g.action_ids.length < g.count ? `(the newest ${count(g.action_ids.length)} of ${count(g.count)})` : '';
  return (
    <article class="group" aria-label={died(g.state, g.reason)}>
      <div class="section-head">
        <span class="big">{count(g.count)}</span>
        <div>
          <h2>{died(g.state, g.reason)}</h2>
          <p class="muted">
            <State of={g.state} /> {says(g.reason)}; first <Ago at={g.first_at} after=" ago" />, last <Ago at={g.last_at} after=" ago" />
            {g.redriven > 0 && <span class="badge" title="Somebody has redriven these before, and they ended here again">{count(g.redriven)} redriven before</span>}
          </p>
        </div>
        <span class="buttons">
          <Do cls="primary" on={() => askEach('redrive', g.action_ids, some)}>
            Redrive {some ? 'the newest ' : ''}{count(g.action_ids.length)}…
          </Do>
        </span>
      </div>
      {g.sample?.message && <pre class="raw clip-lines">{g.sample.message}</pre>}
      <ul class="tags" aria-label="Machines">
        {g.machines.map((m) => (
          <li key={m.machine_id}>
            <a href={href('actions', undefined, { q: `state:${g.state} machine:${m.machine_id}` })}>
              {m.machine_id} <span class="muted">{count(m.count)}</span>
            </a>
          </li>
        ))}
        {g.other_machines ? <li class="muted">and {count(g.other_machines)} machines more</li> : null}
      </ul>
      <ul class="tags" aria-label="Actions">
        {g.action_ids.slice(0, 6).map((id) => (
          <li key={id}>
            <a class="soft" href={href('action', id)}>{id}</a>
          </li>
        ))}
        {g.count > 6 && <li><a href={href('actions', undefined, { q: `state:${g.state}` })}>all {says(g.state)}</a></li>}
      </ul>
    </article>
  );
}
