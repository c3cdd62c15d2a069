// Who sends webhooks here, whether they get in, and what came of each delivery.
import { seg, send } from '../api.ts';
import { count } from '../clock.ts';
import { useLive } from '../live.ts';
import { Ago, Empty, Fault, Line, State } from '../parts/bits.tsx';
import { ask, Do } from '../parts/dialog.tsx';
import { layOut, members, wrongJSON } from '../raw.ts';
import { href, route, setQuery } from '../route.ts';
import type { Page } from '../types.ts';

interface Hook {
  route: string;
  source: string;
  path?: string;
  secrets?: { last_used_at?: string }[];
  counts: Record<string, number>;
  last_refusal?: { at: string; why: string };
}

interface Delivery {
  id: string;
  event?: string;
  at: string;
  verdict: string;
  detail?: string;
  actions: string[];
  repeats?: number;
  delivery_id?: string;
  replay_of?: string;
}

const example = `webhooks:
  routes:
  - id: ci
    source: github
    secrets: ["env:CI_SECRET"]
    actions: [{machine_id: build-1, type: build}]`;

export function WebhooksPage() {
  const live = useLive<Page<Hook>>('/v1/webhooks', { every: 5_000, wants: (f) => f.all || f.events.has('pushed') });
  const items = live.value?.items ?? [];
  const missing = live.error?.status === 404;
  const id = route.value.id;
  return (
    <>
      <h1>Webhooks</h1>
      {!missing && <Fault of={live} what="The webhook routes" />}
      {(missing || (live.value && !items.length)) && (
        <Empty title="No webhook route is configured.">
          <p>A route turns a sender’s signed request into actions. docs/webhooks.md has each sender; in the settings file:</p>
          <pre class="raw">{example}</pre>
          <p>Then let the sender post to:</p>
          <Line text={`${location.origin}/webhooks/ci`} />
        </Empty>
      )}
      {items.map((hook) => (
        <article key={hook.route} class="group hook" aria-label={hook.route}>
          <div class="section-head">
            <h2><a href={href('webhooks', hook.route)}>{hook.route}</a></h2>
            <span class="muted">{hook.source}{hook.path ? ` at ${hook.path}` : ''}</span>
            {hook.secrets?.map((s, i) => <span key={i} class="badge">secret {i + 1}: {s.last_used_at ? <Ago at={s.last_used_at} after=" ago" /> : 'never used'}</span>)}
            <span class="buttons"><Do cls="small" on={() => askTry(hook)}>Try a delivery…</Do></span>
          </div>
          <p>{Object.keys(fates).filter((f) => hook.counts[f]).map((f) => `${count(hook.counts[f]!)} ${fates[f]![1]}`).join(', ') || 'Nothing has come since the server’s start.'}</p>
          {hook.last_refusal && <p class="bad">Last refused <Ago at={hook.last_refusal.at} after=" ago" />: {hook.last_refusal.why}</p>}
          {hook.route === id ? <Deliveries of={id} /> : <a href={href('webhooks', hook.route)}>Deliveries</a>}
        </article>
      ))}
    </>
  );
}

// What became of a delivery: a shape, and a word.
const fates: Record<string, [string, string]> = {
  queued: ['done', 'accepted'], filtered: ['cancelled', 'filtered out'], greeted: ['online', 'greeted'], failed: ['failed', 'failed'],
  closed: ['paused', 'for what is closed'], looped: ['gave_up', 'in a loop'], duplicate: ['cancelled', 'repeated'], refused: ['failed', 'refused'],
};

const base = (of: string) => `/v1/webhooks/${seg(of)}/`;

/** What the route would make of a delivery; nothing is queued. */
function askTry(hook: Hook) {
  ask({
    title: `Try route ${hook.route}`,
    text: 'It says what it would make of this. Nothing is queued, and no signature is needed.',
    button: 'Try it',
    stays: true,
    fields: [
      { name: 'headers', label: 'Headers that the route looks at, one a line', kind: 'area' },
      { name: 'body', label: 'Body (JSON)', kind: 'area', value: '{}', required: true, check: wrongJSON },
    ],
    act: (v) => ({
      method: 'POST',
      path: `${base(hook.route)}test`,
      body: `{"headers":${JSON.stringify(Object.fromEntries((v.headers ?? '').split('\n').filter((l) => l.includes(':')).map((l) => l.split(/:\s*(.*)/, 2))))},"body":${v.body}}`,
      cli: '',
      told: (text) => {
        const t = JSON.parse(text) as { matched: boolean; error?: string; actions: unknown[] };
        return t.error ?? (t.matched ? `It makes ${t.actions.length} action(s):\n${layOut(members(text, ['actions']).actions ?? '')}` : 'The route’s conditions do not hold: it is filtered out.');
      },
    }),
  });
}

function Deliveries({ of }: { of: string }) {
  const path = `${base(of)}deliveries`;
  const live = useLive<Page<Delivery>>(path, { every: 5_000, wants: (f) => f.all || f.events.has('pushed') });
  const open = route.value.query.get('d');
  const replay = (d: Delivery) =>
    ask({
      title: `Replay delivery ${d.id}?`,
      text: 'Its actions are made again, by the route as it is now: what was done may be done twice.',
      button: 'Replay the delivery',
      act: () => ({ method: 'POST', path: `${path}/${seg(d.id)}/replay`, body: '{}', cli: '', told: (text) => `Made ${(JSON.parse(text) as Delivery).actions.length} action(s).` }),
    });
  return (
    <>
      <Fault of={live} what="The deliveries" />
      {live.value && !live.value.items.length && <p class="none">No delivery is kept.</p>}
      <ul class="rows">
        {live.value?.items.map((d) => (
          <li key={d.id}>
            <a href={href('webhooks', of, { d: d.id })} aria-expanded={open === d.id} onClick={(e) => (e.preventDefault(), setQuery({ d: open === d.id ? '' : d.id }))}>{d.delivery_id || d.id}</a>
            <State of={fates[d.verdict]?.[0] ?? d.verdict} word={fates[d.verdict]?.[1]} />
            <span class="muted"><Ago at={d.at} after=" ago" />{d.event ? `, ${d.event}` : ''}{d.replay_of ? `, replay of ${d.replay_of}` : ''}{d.repeats ? `, repeated ×${d.repeats}` : ''}</span>
            <span>{d.actions.slice(0, 5).map((a) => <a key={a} href={href('action', a)}>{a} </a>)}{d.actions.length > 5 ? `and ${count(d.actions.length - 5)} more` : ''}</span>
            <Do cls="small" on={() => replay(d)}>Replay…</Do>
            {d.detail && <bdi class="bad whole">{d.detail}</bdi>}
            {open === d.id && <Inside path={`${path}/${seg(d.id)}`} />}
          </li>
        ))}
      </ul>
    </>
  );
}

/** What a delivery brought. */
function Inside({ path }: { path: string }) {
  const live = useLive<string>(path, { read: (p, s) => send('GET', p, undefined, s), wants: () => false });
  const { headers, body } = members(live.value ?? '{}', ['headers', 'body']);
  return (
    <div class="whole">
      <Fault of={live} what="The delivery" />
      {headers && <pre class="raw" tabIndex={0} aria-label="Headers">{layOut(headers)}</pre>}
      {live.value && <pre class="raw" tabIndex={0} aria-label="Body">{body ? layOut(body) : 'Its body is not kept, or is no JSON.'}</pre>}
    </div>
  );
}
