// Why? One action's whole way: transport and execution side by side, and the time
// that passed between.
import { Fragment } from 'preact';
import { may, seg, send } from '../api.ts';
import { moment, now, span } from '../clock.ts';
import { show } from '../acts.ts';
import { useLive } from '../live.ts';
import { Ago, Copy, Empty, Facts, Fault, Icon, Line, State } from '../parts/bits.tsx';
import { askCancel, askRedrive, askResolve, canCancel, canRedrive, canResolve } from '../parts/asks.ts';
import { Do } from '../parts/dialog.tsx';
import { pageKeys } from '../parts/keys.ts';
import { layOut, members } from '../raw.ts';
import { href, route } from '../route.ts';
import type { Action } from '../types.ts';
import { use } from '../use.ts';
import { says, steps, tones, verdict, type Step } from '../words.ts';
import { useEffect, useRef } from 'preact/hooks';

interface Whole {
  action: Action;
  raw: string; // the answer as it came
  payload?: string;
  result?: string;
}

async function readWhole(path: string, signal: AbortSignal): Promise<Whole> {
  const raw = await send('GET', path, undefined, signal);
  return { action: JSON.parse(raw) as Action, raw, ...members(raw, ['payload', 'result']) };
}

export function ActionPage() {
  const id = route.value.id;
  const latest = useRef<Action | undefined>(undefined);
  const live = useLive<Whole>(`/v1/actions/${seg(id)}`, {
    read: readWhole,
    // While it waits, others decide how it goes on: its machine, its lane, a pause.
    wants: (f) => f.actions.has(id) || (!!latest.current?.waiting_for && f.n > 0),
  });
  const a = live.value?.action;
  latest.current = a;
  useEffect(
    () =>
      pageKeys({
        c: () => latest.current && may('operate') && canCancel(latest.current.state) && askCancel(latest.current),
        r: () => latest.current && may('operate') && canRedrive(latest.current.state) && askRedrive(latest.current),
      }),
    [],
  );
  return (
    <>
      <p class="crumbs"><a href={href('actions')}>Actions</a></p>
      <div class="section-head">
        <h1>{id}</h1>
        {a && <State of={a.state} />}
        {a && <Acts w={live.value!} />}
      </div>
      {live.error?.status === 404 ? <Empty title={`There is no action ${id}, or it is past its retention.`} /> : <Fault of={live} what="The action" />}
      {a && (
        <>
          <Verdict a={a} />
          <div class="columns two">
            <section aria-labelledby="timeline">
              <h2 id="timeline">Timeline</h2>
              <Timeline a={a} />
            </section>
            <section aria-labelledby="facts">
              <h2 id="facts">Facts</h2>
              <About a={a} />
              <Raw title="Payload" text={live.value!.payload} />
              <Raw title="Result" text={live.value!.result} />
              {a.error && (
                <>
                  <h3>Error</h3>
                  <pre class="raw bad">{[a.error.kind, a.error.code].filter(Boolean).join(' ')}{a.error.message ? `\n${a.error.message}` : ''}</pre>
                </>
              )}
            </section>
          </div>
        </>
      )}
    </>
  );
}

function Verdict({ a }: { a: Action }) {
  use(now);
  return (
    <p class={`verdict ${tones[a.state] ?? ''}`}>
      <Icon name={a.state} /> <span>{verdict(a, now.value)}</span>
    </p>
  );
}

function Acts({ w }: { w: Whole }) {
  const a = w.action;
  return (
    <span class="buttons">
      {canRedrive(a.state) && <Do cls="primary" on={() => askRedrive(a)}>Redrive…</Do>}
      {canResolve(a.state) && <Do on={() => askResolve(a)}>Resolve…</Do>}
      {canCancel(a.state) && !(a.cancel_asked_at && a.state === 'in_flight') && <Do cls="danger" on={() => askCancel(a)}>Cancel…</Do>}
      <Copy text={w.raw} label="JSON" />
      <Copy text={show(`/v1/actions/${seg(a.action_id)}`)} label="curl" />
      <Copy text={`pushctl -s ${location.origin} show ${a.action_id}`} label="pushctl" />
    </span>
  );
}

function Timeline({ a }: { a: Action }) {
  const all = steps(a);
  const open = !['done', 'failed', 'gave_up', 'expired', 'cancelled'].includes(a.state);
  const cutAt = a.timeline_cut ? 16 : -1;
  return (
    <>
      <p class="budgets">
        <span>resent <strong>{a.resent_count}</strong> of {a.max_resends}</span>
        <span>attempts <strong>{a.attempts}</strong> of {a.max_attempts}</span>
        <span>{a.deliveries} {a.deliveries === 1 ? 'delivery' : 'deliveries'} in all</span>
      </p>
      <div class="lane-heads" aria-hidden="true">
        <span>transport</span>
        <span>execution</span>
      </div>
      <ol class="timeline">
        {all.map((s, i) => (
          <Fragment key={i}>
            {i === cutAt && <li class="gap">… {a.timeline_cut} entries are no longer kept …</li>}
            {i > 0 && s.gap >= 1 && <Gap ms={s.gap} text={s.gapText} />}
            <Entry s={s} />
          </Fragment>
        ))}
        {open && all.length > 0 && <Open at={all[all.length - 1]!.entry.at} a={a} />}
      </ol>
    </>
  );
}

/** The longer, the taller: by the logarithm, so that an hour still fits. */
function Gap({ ms, text }: { ms: number; text: string }) {
  const height = Math.round(14 + 9 * Math.max(0, Math.log10(ms / 100)));
  return (
    <li class="gap" style={{ minHeight: `${height}px` }}>
      <span>{span(ms)}{text ? ` ${text}` : ''}</span>
    </li>
  );
}

function Open({ at, a }: { at: string; a: Action }) {
  const what = a.state === 'in_flight' ? (a.received_at ? 'in work' : 'no ack yet') : a.state === 'in_doubt' ? 'in doubt' : 'waits';
  return (
    <li class="gap open">
      <span><Ago at={at} /> {what} …</span>
    </li>
  );
}

function Entry({ s }: { s: Step }) {
  return (
    <li class={`entry ${s.lane} ${s.tone} ${s.late ? 'late' : ''}`}>
      <div class="mark">
        <Icon name={iconOf[s.entry.event] ?? 'online'} />
      </div>
      <div>
        <strong>{s.text}</strong>
        {s.entry.delivery ? <span class="muted"> delivery {s.entry.delivery}</span> : null}
        {s.entry.detail && <span> {s.entry.detail}</span>}
        {s.late && <span class="badge">late</span>}
        <br />
        <time class="muted" dateTime={s.entry.at} title={s.entry.at}>{moment(s.entry.at)}</time>
        <span class="offscreen"> ({s.lane})</span>
      </div>
    </li>
  );
}

const iconOf: Record<string, string> = {
  pushed: 'queued', dispatched: 'in_flight', resent: 'in_flight', unsent: 'cancelled', orphan: 'alert', revived: 'done', in_doubt: 'in_doubt',
  gave_up: 'gave_up', expired: 'expired', received: 'online', done: 'done', failed: 'failed', released: 'queued', stalled: 'alert', ceiling: 'alert',
  double_execution: 'alert', cancel_asked: 'cancelled', cancelled: 'cancelled', redriven: 'queued', resolved: 'done',
};

function About({ a }: { a: Action }) {
  const labels = Object.entries(a.labels);
  return (
    <Facts
      rows={[
        ['Machine', <a href={href('machine', a.machine_id)}>{a.machine_id}</a>],
        ['Type', a.type],
        ['Session', a.session_id && <a href={href('actions', undefined, { q: `session:${a.session_id}` })}>{a.session_id}</a>],
        ['Replay', a.replay_id && <a href={href('actions', undefined, { q: `replay:${a.replay_id}` })}>{a.replay_id}</a>],
        ['In front of it', a.waiting_for?.reason === 'lane' && a.waiting_for.action_id ? <a href={href('action', a.waiting_for.action_id)}>{a.waiting_for.action_id}</a> : undefined],
        ['Target', a.target],
        ['Guarantee', says(a.guarantee)],
        ['When it dies', a.on_dead === 'pause' ? 'its lane pauses' : 'its lane goes on'],
        ['Priority', a.priority || undefined],
        ['Place', `seq ${a.seq}`],
        ['Resends', a.resent_count ? `${a.resends.timeout} by timeout, ${a.resends.disconnect} by disconnect` : undefined],
        ['For want of a service', a.transient_attempts ? `${a.transient_attempts} of ${a.transient_max_attempts}` : undefined],
        ['Quota, config', a.quota_waits || a.config_waits ? `${a.quota_waits}, ${a.config_waits}` : undefined],
        ['Not before', a.available_at && moment(a.available_at)],
        ['Expires', a.expires_at && moment(a.expires_at)],
        ['Note', a.note],
        ['Labels', labels.length ? labels.map(([k, v]) => <div key={k}><bdi>{k}</bdi>: <bdi>{v}</bdi></div>) : undefined],
      ]}
    />
  );
}

function Raw({ title, text }: { title: string; text?: string }) {
  if (text === undefined) return null;
  return (
    <>
      <h3>
        {title} <Copy text={text} label="copy" />
      </h3>
      {text.length > 200_000 ? <Line text={`${text.slice(0, 2000)}…`} /> : <pre class="raw" tabIndex={0} aria-label={title}>{layOut(text)}</pre>}
    </>
  );
}
