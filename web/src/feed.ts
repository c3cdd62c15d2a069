// The live feed. One EventSource serves all tabs of a browser (HTTP/1.1 allows six
// connections, and the seventh tab would hang without a word): the tab that holds a
// lock reads it and tells the others. What comes is only a hint of what to read
// again; the truth is asked by REST.
import { computed, effect, signal, untracked } from '@preact/signals-core';
import { Failure, session, whoAmI } from './api.ts';
import { now } from './clock.ts';
import type { Change } from './types.ts';

/** What changed since the last frame; all: nobody knows, read everything. */
export interface Frame {
  machines: Set<string>;
  actions: Set<string>;
  events: Set<string>;
  all: boolean;
  n: number;
}

type Word =
  | { kind: 'changes'; changes: Change[] }
  | { kind: 'resync' }
  | { kind: 'link'; live: boolean; retryAt: number }
  | { kind: 'ask' | 'nudge' | 'session' };

const frameMS = 250;
const logSize = 60;

export const link = signal<{ live: boolean; retryAt: number }>({ live: false, retryAt: 0 });
/** The newest changes, for the eye only. */
export const log = signal<Change[]>([]);
export const paused = signal(false); // by the reader's word
export const selected = signal<ReadonlySet<string>>(new Set());
const hidden = signal(document.hidden);
/** Why the view stands still; empty while it moves. */
export const standing = computed(() =>
  paused.value ? 'paused' : selected.value.size > 0 ? `paused: ${selected.value.size} selected` : hidden.value ? 'hidden' : '',
);
export const missed = signal(0);

const listeners = new Set<(f: Frame) => void>();
const empty = (): Frame => ({ machines: new Set(), actions: new Set(), events: new Set(), all: false, n: 0 });
let pending = empty();
let timer = 0;
let last = 0;

/** Calls f at most four times a second, when something has changed. */
export function onFrame(f: (f: Frame) => void): () => void {
  listeners.add(f);
  return () => listeners.delete(f);
}

function deliver() {
  clearTimeout(timer);
  timer = 0;
  if (standing.peek() || (pending.n === 0 && !pending.all)) {
    missed.value = pending.n;
    return;
  }
  const frame = pending;
  pending = empty();
  missed.value = 0;
  last = performance.now();
  for (const f of listeners) f(frame);
}

function schedule() {
  if (timer) return;
  timer = window.setTimeout(deliver, Math.max(0, last + frameMS - performance.now()));
}

function take(changes: Change[]) {
  for (const c of changes) {
    if (c.machine_id) pending.machines.add(c.machine_id);
    if (c.action_id) pending.actions.add(c.action_id);
    pending.events.add(c.event);
    pending.n++;
  }
  if (pending.actions.size > 5000) { // a page that stands still must not grow
    pending.actions.clear();
    pending.all = true;
  }
  if (!hidden.peek()) log.value = [...changes.slice(-logSize).reverse(), ...log.peek()].slice(0, logSize);
  schedule();
}

export function resync() {
  pending.all = true;
  schedule();
}

effect(() => {
  if (!standing.value) schedule();
});
document.addEventListener('visibilitychange', () => {
  hidden.value = document.hidden;
  if (!document.hidden) resync();
});

// ---- between tabs

const channel = new BroadcastChannel('pushd-feed');

function hear(w: Word) {
  if (w.kind === 'changes') take(w.changes);
  else if (w.kind === 'resync') resync();
  else if (w.kind === 'link') link.value = { live: w.live, retryAt: w.retryAt };
}

function tell(w: Word) {
  channel.postMessage(w);
  hear(w);
}

channel.onmessage = (e: MessageEvent<Word>) => {
  const w = e.data;
  if (w.kind === 'session') void whoAmI().catch(() => {});
  else if (w.kind === 'ask' && leading) channel.postMessage({ kind: 'link', ...link.peek() });
  else if (w.kind === 'nudge' && leading) reopen(0);
  else hear(w);
};

/** Tells the other tabs that the reader has signed in or out. */
export const sessionChanged = () => channel.postMessage({ kind: 'session' } satisfies Word);

let nudged = -Infinity;

/** The stream may be dead without knowing: whoever sees it says so. */
export function nudge() {
  if (performance.now() - nudged < 5000) return;
  nudged = performance.now();
  if (leading) reopen(0);
  else channel.postMessage({ kind: 'nudge' } satisfies Word);
}

// ---- the tab that leads

let leading = false;
let source: EventSource | null = null;
let tries = 0;
let serial = 0;
let retry = 0;
let gathered: Change[] = [];
let gather = 0;

function flush() {
  clearTimeout(gather);
  gather = 0;
  const changes = gathered;
  gathered = [];
  if (changes.length) tell({ kind: 'changes', changes });
}

function onEvent(e: MessageEvent<string>) {
  const id = Number(e.lastEventId);
  // Under a token with a pattern numbers are missing by right.
  if (serial && id !== serial + 1 && !session.peek()?.partly) tell({ kind: 'resync' });
  serial = id;
  if (e.type === 'resync') return tell({ kind: 'resync' });
  gathered.push(JSON.parse(e.data) as Change);
  // A frame comes event by event. A hidden tab's timers are slow, and others may be looking.
  if (document.hidden || gathered.length > 2000) flush();
  else if (!gather) gather = window.setTimeout(flush, 30);
}

function open() {
  source?.close();
  serial = 0;
  const s = (source = new EventSource('/v1/feed'));
  s.onopen = () => {
    tries = 0;
    tell({ kind: 'link', live: true, retryAt: 0 });
    tell({ kind: 'resync' });
  };
  // EventSource would give up for good on a 5xx, so that it is reopened here.
  s.onerror = () => {
    if (s !== source) return;
    s.close();
    const wait = Math.min(15_000, 500 * 2 ** tries++) * (0.7 + 0.6 * Math.random());
    reopen(wait);
    whoAmI().catch((e: unknown) => e instanceof Failure);
  };
  for (const name of ['change', 'machine', 'resync']) s.addEventListener(name, onEvent);
}

function reopen(wait: number) {
  clearTimeout(retry);
  source?.close();
  source = null;
  if (!session.peek()?.signed_in) return tell({ kind: 'link', live: false, retryAt: 0 });
  tell({ kind: 'link', live: false, retryAt: now.peek() + wait });
  retry = window.setTimeout(open, wait);
}

function lead() {
  leading = true;
  // On the word alone: that the session was asked for again must not end a wait.
  let was: boolean | undefined;
  const off = effect(() => {
    const is = session.value?.signed_in;
    if (is !== undefined && is !== was) untracked(() => reopen(0));
    was = is;
  });
  return () => {
    off();
    leading = false;
    clearTimeout(retry);
    source?.close();
    source = null;
  };
}

/** Without Web Locks (plain http from another host) a lease in localStorage has to do. */
function leadByLease() {
  let stop = () => {};
  const me = Math.random().toString(36).slice(2);
  const name = 'pushd-feed-lease';
  window.setInterval(() => {
    const [holder, until] = (localStorage.getItem(name) ?? '').split(' ');
    if (holder !== me && Number(until) > Date.now()) {
      if (leading) stop(); // another took over while this tab slept
      return;
    }
    localStorage.setItem(name, `${me} ${Date.now() + 4000}`);
    if (!leading) stop = lead();
  }, 1000);
  addEventListener('pagehide', () => leading && localStorage.removeItem(name));
}

/** Waits for its turn to lead, and gives the lead up when the page goes away. */
function leadByLock() {
  void navigator.locks.request('pushd-feed', () => new Promise<void>((release) => {
    const stop = lead();
    addEventListener('pagehide', () => {
      stop();
      release();
    }, { once: true });
  }));
}

export function startFeed() {
  channel.postMessage({ kind: 'ask' } satisfies Word);
  if (!navigator.locks) return leadByLease();
  leadByLock();
  addEventListener('pageshow', (e) => e.persisted && leadByLock());
}
