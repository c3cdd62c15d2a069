// One way to the server. What failed is told in the server's words.
import { setClock } from './clock.ts';
import { signal } from '@preact/signals-core';
import type { Session } from './types.ts';

/** Who reads; null until the server has said. */
export const session = signal<Session | null>(null);
export const may = (power: string) => session.value?.can.includes(power) ?? false;

/** What the server said, or that it said nothing. */
export class Failure extends Error {
  status: number; // 0: no answer
  constructor(status: number, message: string) {
    super(message);
    this.status = status;
  }
}

interface Problem {
  title?: string;
  detail?: string;
  errors?: { field: string; message: string }[];
}

function words(status: number, text: string): string {
  try {
    const p = JSON.parse(text) as Problem;
    const fields = p.errors?.map((e) => `${e.field} ${e.message}`).join('; ');
    return (p.detail && fields && !fields.includes(p.detail) && !p.detail.includes(fields) ? `${p.detail}: ${fields}` : p.detail ?? fields ?? p.title) ?? `status ${status}`;
  } catch {
    return `the server answered ${status}`;
  }
}

/** Sends a request and returns the answer's text. Bodies are raw JSON text. */
export async function send(method: string, path: string, body?: string, signal?: AbortSignal): Promise<string> {
  let answer: Response;
  try {
    answer = await fetch(path, {
      method,
      body,
      signal,
      headers: body === undefined ? {} : { 'Content-Type': 'application/json' },
    });
  } catch (e) {
    if ((e as Error).name === 'AbortError') throw e;
    throw new Failure(0, 'the server does not answer');
  }
  const text = await answer.text();
  if (answer.ok) return text;
  if (answer.status === 401 && path !== '/v1/session') void whoAmI();
  throw new Failure(answer.status, words(answer.status, text));
}

export async function get<T>(path: string, signal?: AbortSignal): Promise<T> {
  const value = JSON.parse(await send('GET', path, undefined, signal)) as T;
  const time = (value as { server_time?: string } | null)?.server_time;
  if (time) setClock(time);
  return value;
}

/** Asks the server who we are. */
export async function whoAmI(): Promise<void> {
  session.value = await get<Session>('/v1/session');
}

/** Signs in; the token goes no further than this request. */
export async function signIn(token: string): Promise<void> {
  await send('POST', '/v1/session', JSON.stringify({ token }));
  await whoAmI();
}

export async function signOut(): Promise<void> {
  await send('DELETE', '/v1/session');
  await whoAmI();
}

/** A path with its query; what is empty is left out. */
export function url(path: string, query: Record<string, string | number | string[] | undefined>): string {
  const q = new URLSearchParams();
  for (const [name, value] of Object.entries(query)) {
    for (const v of Array.isArray(value) ? value : [value]) if (v !== undefined && v !== '') q.append(name, String(v));
  }
  const text = q.toString();
  return text ? `${path}?${text}` : path;
}

export const seg = encodeURIComponent;
