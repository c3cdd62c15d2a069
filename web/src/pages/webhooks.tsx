// Who sends webhooks here, and whether they get in.
import { useLive } from '../live.ts';
import { Ago, Empty, Fault, Line } from '../parts/bits.tsx';
import { says } from '../words.ts';

type Hook = Record<string, unknown>;

const example = `webhooks:
  ci:
    source: github
    secrets: ["env:CI_WEBHOOK_SECRET"]
    machine_id: build-1
    type: build`;

/** A field's value as text; nothing of it is ever HTML. */
function shown(name: string, value: unknown) {
  if (value === null || value === undefined || value === '') return <span class="none">–</span>;
  if (typeof value === 'string' && /_at$/.test(name)) return <Ago at={value} after=" ago" />;
  if (typeof value === 'object') return <code>{JSON.stringify(value)}</code>;
  return String(value);
}

export function WebhooksPage() {
  const live = useLive<{ items: Hook[] }>('/v1/webhooks', { every: 10_000, wants: (f) => f.all });
  const items = live.value?.items ?? [];
  const missing = live.error?.status === 404;
  const names = [...new Set(items.flatMap((h) => Object.keys(h)))];
  return (
    <>
      <h1>Webhooks</h1>
      {!missing && <Fault of={live} what="The webhook routes" />}
      {(missing || (live.value && !items.length)) && (
        <Empty title="No webhook route is configured.">
          <p>A route turns a sender's signed request into actions. In the settings file:</p>
          <pre class="raw">{example}</pre>
          <p>Then let the sender post to:</p>
          <Line text={`${location.origin}/webhooks/ci`} />
        </Empty>
      )}
      {items.length > 0 && (
        <div class="scroll">
          <table class="grid">
            <caption class="offscreen">Webhook routes</caption>
            <thead>
              <tr>{names.map((n) => <th key={n} scope="col">{says(n)}</th>)}</tr>
            </thead>
            <tbody>
              {items.map((h, i) => (
                <tr key={i}>
                  {names.map((n, c) => (c === 0 ? <th key={n} scope="row">{shown(n, h[n])}</th> : <td key={n} data-label={says(n)}>{shown(n, h[n])}</td>))}
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
    </>
  );
}
