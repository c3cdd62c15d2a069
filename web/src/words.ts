// The protocol's words as people say them, in one place.
import { count, span } from './clock.ts';
import type { Action, Entry, Waiting } from './types.ts';

export const actionStates = ['scheduled', 'queued', 'in_flight', 'in_doubt', 'done', 'failed', 'gave_up', 'expired', 'cancelled'];
export const deadStates = ['failed', 'gave_up', 'expired'];
export const settledStates = ['done', 'failed', 'gave_up', 'expired', 'cancelled'];

export type Tone = 'good' | 'busy' | 'wait' | 'warn' | 'bad' | 'off';

export const tones: Record<string, Tone> = {
  online: 'good', suspect: 'warn', grace: 'warn', offline: 'off',
  scheduled: 'wait', queued: 'wait', in_flight: 'busy', in_doubt: 'warn', done: 'good',
  failed: 'bad', gave_up: 'bad', expired: 'bad', cancelled: 'off',
  open: 'bad', half_open: 'warn', active: 'good', paused: 'warn', paused_need_help: 'bad', closed: 'off',
};

export const says = (word: string) => word.replaceAll('_', ' ');

const troubleWords: Record<string, string> = {
  contested: 'two agents claim it',
  gone_with_work: 'not there, with work waiting',
  needs_help: 'paused itself: somebody must look',
  orphans: 'deliveries were lost',
  breaker: 'a service it needs is missing',
  suspect: 'misses its beats',
  silent: 'connected but silent, with work in flight',
  no_credit: 'takes nothing: its credit is 0',
  paused_with_work: 'paused, with work waiting',
};
export const trouble = (word: string) => troubleWords[word] ?? says(word);

const causeWords: Record<string, string> = {
  operator: 'an operator', on_dead: 'its last action ended badly', need_help: 'two give-ups in a row',
};
export const cause = (word: string) => causeWords[word] ?? says(word);

const deadWords: Record<string, string> = {
  'gave_up timeout': 'Never answered: no ack in time, resends used up',
  'gave_up disconnect': 'Lost with its stream: resends used up',
  'failed error': 'The work failed, attempts used up',
  'failed permanent': 'The work failed and would fail again',
  'failed transient': 'A service was missing too often',
  'failed quota': 'A usage limit, four times',
  'failed config': 'The machine cannot do it',
  'failed stalled': 'Began and fell silent',
  'failed ceiling': 'Took longer than its ceiling',
  'failed released': 'Given back too often',
  'failed operator': 'Declared failed by an operator',
  'expired never_sent': 'Expired before it was ever sent',
  'expired sent_before': 'Expired while it waited to be sent again',
};
export const died = (state: string, reason: string) => deadWords[`${state} ${reason}`] ?? `${says(state)}: ${says(reason)}`;

/** What somebody wrote, in whatever direction, within a sentence of ours. */
const quoted = (text: string) => `\u2068${text}\u2069`;

/** Why an action waits, as the end of a sentence. */
export function waits(w: Waiting, now: number): string {
  const until = w.until ? `, ${span(Date.parse(w.until) - now)} left` : '';
  switch (w.reason) {
    case 'draining': return 'the server is stopping';
    case 'paused': return `${w.scope} ${w.id} is paused by ${cause(w.cause ?? '')}${w.note ? ` (${quoted(w.note)})` : ''}${until}`;
    case 'lane': return `${w.action_id} is in front of it in its lane`;
    case 'available_at': return `its time has not come${until}`;
    case 'breaker_open': return `the breaker ${w.target ? `of ${w.target} ` : ''}is open${until}`;
    case 'machine_offline': return 'its machine is offline';
    case 'machine_suspect': return 'its machine misses its beats';
    case 'credit': return `its machine has all it may have in flight${w.in_flight?.length ? ` (${w.in_flight.slice(0, 3).join(', ')})` : ''}`;
  }
  return says(w.reason);
}

/** One line that answers: what became of it, and why? */
export function verdict(a: Action, now: number): string {
  const ms = (at?: string) => (at ? Date.parse(at) : 0);
  const resent = a.resent_count ? ` after ${count(a.resent_count)} resend${a.resent_count > 1 ? 's' : ''}` : '';
  const late = a.late ? ' Its agent answered late.' : '';
  const fault = a.error ? `${a.error.kind ?? 'error'}${a.error.message ? `: ${quoted(a.error.message)}` : ''}` : 'no reason given';
  const note = a.note && quoted(a.note);
  switch (a.state) {
    case 'done': {
      const took = a.settled_at ? `, ${span(ms(a.settled_at) - ms(a.created_at))} after its push` : '';
      return `Done${took}${a.deliveries > 1 ? `, on delivery ${a.deliveries}` : ''}${note ? `: ${note}` : ''}.${late}`;
    }
    case 'failed':
      return `Failed${a.attempts ? ` after ${a.attempts} of ${a.max_attempts} attempts` : ''}: ${note || fault}${/[.!?]\u2069?$/.test(note || fault) ? '' : '.'}${late}`;
    case 'gave_up': {
      const why = a.timeline?.findLast((e) => e.event === 'gave_up')?.detail;
      return `Given up${resent}: ${why === 'disconnect' ? 'its stream ended each time' : 'no ack in time'}. Nobody knows whether it was done.${late}`;
    }
    case 'expired': return `Expired: its latest dispatch passed while it waited${a.deliveries ? '' : ', before it was ever sent'}.${late}`;
    case 'cancelled':
      return `Cancelled${a.cancel_confirmed === true ? ', and its agent confirmed that it stopped' : a.cancel_confirmed === false ? '; its agent never answered and may have done it' : ''}.${late}`;
    case 'in_doubt': return 'In doubt: it may have been received, and at_most_once forbids sending it again. Say what became of it, or redrive it.';
    case 'in_flight': {
      if (a.cancel_asked_at) return 'In flight, and asked to stop; its agent has not answered.';
      const since = span(now - ms(a.received_at ?? a.dispatched_at));
      const progress = a.progress ? ` (${[a.progress.percent != null ? `${a.progress.percent} %` : '', a.progress.note].filter(Boolean).join(', ')})` : '';
      return a.received_at ? `In work for ${since}${progress}, on delivery ${a.delivery}.` : `Sent ${since} ago as delivery ${a.delivery}; its agent has not said that it has it.`;
    }
  }
  const w = a.waiting_for;
  const what = w?.resend ? 'Lost on its way, waits to be sent again' : a.deliveries ? 'Waits to be tried again' : 'Waits';
  return w ? `${what}: ${waits(w, now)}.` : `${what}.`;
}

export type Lane = 'transport' | 'execution' | 'operator';

const lanes: Record<string, [Lane, string, Tone]> = {
  pushed: ['transport', 'pushed', 'wait'],
  dispatched: ['transport', 'sent', 'busy'],
  resent: ['transport', 'sent again', 'warn'],
  unsent: ['transport', 'taken back: no byte was written', 'off'],
  orphan: ['transport', 'taken for lost', 'warn'],
  revived: ['transport', 'found again: its agent has it', 'good'],
  in_doubt: ['transport', 'in doubt', 'warn'],
  gave_up: ['transport', 'given up', 'bad'],
  expired: ['transport', 'expired', 'bad'],
  received: ['execution', 'received', 'busy'],
  done: ['execution', 'done', 'good'],
  failed: ['execution', 'failed', 'bad'],
  released: ['execution', 'given back, not begun', 'wait'],
  stalled: ['execution', 'silent: told to stop', 'warn'],
  ceiling: ['execution', 'too long: told to stop', 'warn'],
  double_execution: ['execution', 'done a second time', 'bad'],
  cancel_asked: ['operator', 'asked to stop', 'off'],
  cancelled: ['operator', 'cancelled', 'off'],
  redriven: ['operator', 'redriven', 'busy'],
  resolved: ['operator', 'resolved', 'good'],
};

export interface Step {
  entry: Entry;
  lane: Lane;
  text: string;
  tone: Tone;
  gap: number; // ms since the entry before
  gapText: string; // what was waited for
  late: boolean;
}

const lostWords: Record<string, string> = {
  timeout: 'no ack in time', disconnect: 'its stream ended', 'never received': 'its agent never got it',
};

/** The timeline as steps in two lanes. What came of a loss or an end is told by what was before. */
export function steps(a: Action): Step[] {
  let before: Entry | undefined;
  let over = false;
  const ends = ['done', 'failed', 'gave_up', 'expired', 'cancelled', 'resolved'];
  return (a.timeline ?? []).map((entry) => {
    const [lane, text, tone] = lanes[entry.event] ?? ['transport', says(entry.event), 'off'];
    const gap = before ? Date.parse(entry.at) - Date.parse(before.at) : 0;
    // After an end only agents that come late speak, until somebody redrives it.
    const late = over && lane === 'execution';
    const wasFailure = before?.event === 'failed' && (entry.event === 'dispatched' || entry.event === 'resent');
    if (entry.event === 'redriven') over = false;
    else if (ends.includes(entry.event) && (entry.event !== 'failed' || a.state === 'failed')) over ||= entry.event !== 'failed';
    const gapText = gapWords(before, entry, wasFailure);
    before = entry;
    const detail = entry.event === 'orphan' || entry.event === 'gave_up' ? lostWords[entry.detail ?? ''] ?? entry.detail : entry.detail;
    return { entry: { ...entry, detail }, lane, text, tone, gap, gapText, late };
  });
}

function gapWords(before: Entry | undefined, e: Entry, retry: boolean): string {
  if (!before) return '';
  if (retry) return 'waits before the next attempt';
  if (e.event === 'orphan') return before.event === 'received' || before.event === 'revived' ? 'no sign of life' : 'no ack';
  if (['dispatched', 'resent'].includes(e.event)) return 'waits';
  if (e.event === 'done' || e.event === 'failed') return before.event === 'received' || before.event === 'revived' ? 'works' : 'silence';
  if (e.event === 'received') return 'on its way';
  return '';
}
