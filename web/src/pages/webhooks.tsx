// Who sends webhooks here, whether they get in, and what came of each delivery.
import { may, seg } from '../api.ts';
import { count } from '../clock.ts';
import { useLive } from '../live.ts';
import { Ago, Empty, Fault, Line } from '../parts/bits.tsx';
import { ask } from '../parts/dialog.tsx';
import { href, route } from '../route.ts';
import type { Page } from '../types.ts';
import { says } from '../words.ts';

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
      {items.map((h) => (
        <article key={h.route} class="group hook" aria-label={h.route}>
          <div class="section-head">
            <h2><a href={href('webhooks', h.route)}>{h.route}</a></h2>
            <span class="muted">{h.source}{h.path ? ` at ${h.path}` : ''}</span>
            {h.secrets?.map((s, i) => <span key={i} class="badge">secret {i + 1}: {s.last_used_at ? <Ago at={s.last_used_at} after=" ago" /> : 'never used'}</span>)}
          </div>
          <p>{Object.entries(h.counts).map(([verdict, n]) => `${count(n)} ${says(verdict)}`).join(', ') || 'nothing has come yet'}</p>
          {h.last_refusal && <p class="bad">Last refused <Ago at={h.last_refusal.at} after=" ago" />: {h.last_refusal.why}</p>}
          {h.route === id && <Deliveries of={id} />}
        </article>
      ))}
    </>
  );
}

function Deliveries({ of }: { of: string }) {
  const path = `/v1/webhooks/${seg(of)}/deliveries`;
  const live = useLive<Page<Delivery>>(path, { every: 5_000, wants: (f) => f.all || f.events.has('pushed') });
  const replay = (d: Delivery) =>
    ask({
      title: `Replay delivery ${d.id}?`,
      text: 'Its actions are made again, by the route as it is now.',
      button: 'Replay the delivery',
      act: () => ({ method: 'POST', path: `${path}/${seg(d.id)}/replay`, body: '{}', cli: '', told: (text) => `Made ${(JSON.parse(text) as Delivery).actions.length} actions.` }),
    });
  return (
    <>
      <Fault of={live} what="The deliveries" />
      {live.value && !live.value.items.length && <p class="none">No delivery is kept.</p>}
      <ul class="rows">
        {live.value?.items.map((d) => (
          <li key={d.id}>
            <Ago at={d.at} after=" ago" />
            <span>{says(d.verdict)}{d.event ? `, ${d.event}` : ''}</span>
            <span class="muted">{d.detail}{d.repeats ? ` repeated ×${d.repeats}` : ''}</span>
            <span>{d.actions.slice(0, 5).map((a) => <a key={a} href={href('action', a)}>{a} </a>)}</span>
            {may('operate') && <button type="button" class="small" onClick={() => replay(d)}>Replay…</button>}
          </li>
        ))}
      </ul>
    </>
  );
}
