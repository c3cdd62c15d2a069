// Every act of the protocol: what it sends, and the same as a line of shell.
import { seg, send, session } from './api.ts';
import { count, now } from './clock.ts';
import { says } from './words.ts';
import type { Action, Breaker, Label, Machine } from './types.ts';

export interface Act {
  method: string;
  path: string;
  body?: string; // raw JSON
  cli: string; // of pushctl; empty where it has none
  /** What the server's answer says was done. */
  told: (answer: string) => string;
}

const sh = (text: string) => (/^[A-Za-z0-9._:@%/=+-]+$/.test(text) ? text : `'${text.replaceAll("'", `'\\''`)}'`);

const pushctl = (...words: string[]) => ['pushctl', '-s', location.origin, ...words.map(sh)].join(' ');

/** The act as curl would do it. Where a token is needed it comes from the environment, never into the line. */
export function curl(a: Pick<Act, 'method' | 'path' | 'body'>): string {
  const parts = ['curl', '-sS', '-X', a.method, sh(location.origin + a.path)];
  if (!session.value?.open) parts.push('-H', '"Authorization: Bearer $PUSHD_TOKEN"');
  if (a.body !== undefined) parts.push('-H', "'Content-Type: application/json'", '-d', sh(a.body));
  return parts.join(' ');
}

export const show = (path: string) => curl({ method: 'GET', path });

/** What makes a machine appear: its stream as curl holds it, and our agent. */
export const streamLine = (id: string) => show(`/events?machine_id=${seg(id)}`).replace('-sS -X GET', '-N');
export const agentLine = (id: string) => `pushd agent --server ${location.origin} --machine ${sh(id)} --config agent.yaml`;

export async function run(a: Act): Promise<string> {
  return a.told(await send(a.method, a.path, a.body));
}

const post = (path: string, body: object | undefined, cli: string, told: Act['told']): Act => ({
  method: 'POST',
  path,
  body: body && JSON.stringify(body),
  cli,
  told,
});

const stateOf = (answer: string) => JSON.parse(answer) as Action;

export function cancel(id: string): Act {
  return post(`/v1/actions/${seg(id)}/cancel`, undefined, pushctl('cancel', id), (text) => {
    const a = stateOf(text);
    return a.state === 'in_flight' ? `${id} is asked to stop; its agent has yet to answer.` : `${id} is ${says(a.state)}.`;
  });
}

export function redrive(id: string): Act {
  return post(`/v1/actions/${seg(id)}/redrive`, undefined, pushctl('redrive', id), (text) => `${id} is ${says(stateOf(text).state)} again, with full budgets.`);
}

export function resolve(id: string, as: string, note: string): Act {
  const body = note ? { as, note } : { as };
  const cli = pushctl('resolve', id, '--as', as, ...(note ? ['--note', note] : []));
  return post(`/v1/actions/${seg(id)}/resolve`, body, cli, (text) => `${id} is ${says(stateOf(text).state)} by your word.`);
}

type Scope = 'machine' | 'session' | 'replay';

export function pause(scope: Scope, id: string, note: string, minutes: number): Act {
  const body: Record<string, string> = {};
  if (note) body.note = note;
  if (minutes > 0) body.until = new Date(now.peek() + minutes * 60_000).toISOString();
  const cli = pushctl('pause', scope, id, ...(note ? ['--note', note] : []), ...(minutes > 0 ? ['--until', `${minutes}m`] : []));
  return post(`/v1/${scope}s/${seg(id)}/pause`, body, cli, () => `${scope} ${id} is paused. What is in flight goes on.`);
}

export function resume(scope: Scope, id: string): Act {
  return post(`/v1/${scope}s/${seg(id)}/resume`, undefined, pushctl('resume', scope, id), (text) => {
    const t = JSON.parse(text) as Machine | Label;
    return t.paused.length ? `${scope} ${id} still has ${t.paused.length} pause(s).` : `${scope} ${id} goes on.`;
  });
}

export function closeLabel(scope: 'session' | 'replay', id: string): Act {
  return post(`/v1/${scope}s/${seg(id)}/cancel`, undefined, pushctl('cancel', `--${scope}`, id, '--close', '--yes'), (text) => {
    const l = JSON.parse(text) as Label;
    return `${scope} ${id} is ${says(l.status)}; ${count(l.counts.cancelled ?? 0)} of its actions are cancelled.`;
  });
}

export function closeBreaker(b: Breaker): Act {
  const body = { ...(b.machine_id ? { machine_id: b.machine_id } : {}), ...(b.target ? { target: b.target } : {}) };
  const cli = pushctl('breaker', 'close', ...[b.machine_id, b.target].filter((w): w is string => !!w));
  return post('/v1/breakers/close', body, cli, () => `The breaker ${b.target ? `of ${b.target} ` : ''}is closed.`);
}

export function credit(id: string, max: number | null, reason: string): Act {
  const body = { max_in_flight: max, ...(reason ? { reason } : {}) };
  return {
    method: 'PATCH',
    path: `/v1/machines/${seg(id)}`,
    body: JSON.stringify(body),
    cli: '',
    told: (text) => `${id} may have ${(JSON.parse(text) as Machine).max_in_flight} in flight.`,
  };
}

export function forget(id: string): Act {
  return { method: 'DELETE', path: `/v1/machines/${seg(id)}`, cli: '', told: () => `${id} is forgotten.` };
}

export interface TestPush {
  machine: string;
  type: string;
  payload: string; // raw: its digits are kept
  session: string;
  once: boolean;
}

/** Pushes an action. The body is put together as text: its payload must arrive as it was typed. */
export function push(p: TestPush): Act {
  const head = JSON.stringify({
    machine_id: p.machine,
    type: p.type,
    ...(p.session ? { session_id: p.session } : {}),
    ...(p.once ? { guarantee: 'at_most_once' } : {}),
  });
  const payload = p.payload.trim() || 'null';
  return {
    method: 'POST',
    path: '/v1/actions',
    body: `${head.slice(0, -1)},"payload":${payload}}`,
    cli: pushctl('push', p.machine, payload, '--type', p.type, ...(p.session ? ['--session', p.session] : []), ...(p.once ? ['--at-most-once'] : [])),
    told: (text) => {
      const r = JSON.parse(text) as { action_id: string; state: string; machine?: string };
      return `${r.action_id} is ${says(r.state)}${r.machine === 'unknown' ? '; that machine has never subscribed' : ''}.`;
    },
  };
}

/** What bulk calls can select by; a label or a second state they cannot. */
export interface Selection {
  machine_id?: string;
  session_id?: string;
  replay_id?: string;
  state?: string;
  type?: string;
}

export function bulk(verb: 'cancel' | 'redrive', s: Selection, dryRun: boolean): Act {
  const flags = Object.entries(s).flatMap(([k, v]) => [`--${k.replace('_id', '')}`, v as string]);
  const body = dryRun ? { ...s, dry_run: true } : s;
  return post(`/v1/${verb}`, body, pushctl(verb, ...flags, dryRun ? '--dry-run' : '--yes'), (text) => {
    const n = (JSON.parse(text) as { count: number }).count;
    return verb === 'cancel' ? `${count(n)} cancelled or asked to stop.` : `${count(n)} queued again.`;
  });
}

/** How many an act in bulk would touch, by the server's count. */
export async function dryRun(verb: 'cancel' | 'redrive', all: Selection[]): Promise<number> {
  let n = 0;
  for (const s of all) {
    const a = bulk(verb, s, true);
    n += (JSON.parse(await send(a.method, a.path, a.body)) as { count: number }).count;
  }
  return n;
}

export interface Outcome {
  done: number;
  refused: { id: string; why: string }[];
}

/** Does one act to each of some things, a few at a time, and tells what the server said of each. */
export async function each(ids: string[], of: (id: string) => Act, on: (n: number) => void): Promise<Outcome> {
  const out: Outcome = { done: 0, refused: [] };
  const queue = [...ids];
  const worker = async () => {
    for (let id = queue.shift(); id !== undefined; id = queue.shift()) {
      try {
        await run(of(id));
        out.done++;
      } catch (e) {
        out.refused.push({ id, why: (e as Error).message });
      }
      on(out.done + out.refused.length);
    }
  };
  await Promise.all([worker(), worker(), worker(), worker()]);
  return out;
}
