// Who may what. A token's text is shown once; nothing keeps it.
import { signal } from '@preact/signals-core';
import { seg } from '../api.ts';
import { useLive } from '../live.ts';
import { Ago, Fault, Line } from '../parts/bits.tsx';
import { use } from '../use.ts';
import { ask } from '../parts/dialog.tsx';

interface Token {
  id: string;
  name: string;
  scopes: string[];
  created_at: string;
  expires_at?: string;
  token?: string;
}

const fresh = signal<{ name: string; text: string } | null>(null);

function askCreate() {
  ask({
    title: 'Create a token',
    text: 'Once a token exists, everybody needs one: an open server closes.',
    button: 'Create the token',
    fields: [
      { name: 'name', label: 'Name', required: true },
      { name: 'scopes', label: 'Scopes', value: 'read', required: true, hint: 'admin, read, operate, push, agent:PATTERN; a pattern of machine ids after a colon; several with spaces' },
    ],
    act: (v) => ({
      method: 'POST',
      path: '/v1/tokens',
      body: JSON.stringify({ name: v.name, scopes: (v.scopes ?? '').split(/[\s,]+/).filter(Boolean) }),
      cli: '',
      told: (answer) => {
        const t = JSON.parse(answer) as Token;
        fresh.value = { name: t.name, text: t.token ?? '' };
        return `Token ${t.name} is made. Its text is shown once.`;
      },
    }),
  });
}

function askRevoke(t: Token) {
  ask({
    title: `Revoke ${t.name}?`,
    text: 'Who uses it is cut off at once, streams and dashboards too.',
    button: 'Revoke the token',
    danger: true,
    act: () => ({ method: 'DELETE', path: `/v1/tokens/${seg(t.id)}`, cli: `pushctl -s ${location.origin} token revoke ${t.id}`, told: () => `${t.name} is revoked.` }),
  });
}

export function Tokens() {
  const live = useLive<{ items: Token[] }>('/v1/tokens', { every: 30_000, wants: (f) => f.all });
  use(fresh);
  const items = live.value?.items;
  return (
    <section aria-labelledby="tokens">
      <div class="section-head">
        <h2 id="tokens">Tokens</h2>
        <button type="button" onClick={askCreate}>Create a token…</button>
      </div>
      <Fault of={live} what="The tokens" />
      {fresh.value && (
        <div class="note warn">
          <p>The text of {fresh.value.name}, for the last time:</p>
          <Line text={fresh.value.text} />
          <button type="button" class="small" onClick={() => (fresh.value = null)}>I have it</button>
        </div>
      )}
      {items && !items.length && <p class="none">No token exists: this server is open to everybody on its machine.</p>}
      <ul class="rows">
        {items?.map((t) => (
          <li key={t.id}>
            <strong>{t.name}</strong>
            <span>{t.scopes.join(' ')}</span>
            <span class="muted">made <Ago at={t.created_at} after=" ago" />{t.expires_at ? `, ends ${t.expires_at}` : ''}</span>
            <button type="button" class="small danger" onClick={() => askRevoke(t)}>Revoke…</button>
          </li>
        ))}
      </ul>
    </section>
  );
}
