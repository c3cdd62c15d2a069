// The search line: words like state:failed machine:win-1, kept in the address.
import type { Selection } from './acts.ts';
import { actionStates } from './words.ts';

export interface Search {
  states: string[];
  machine_id: string;
  session_id: string;
  replay_id: string;
  type: string;
  labels: string[];
  id: string; // a bare word is an action's id
  wrong: string[];
}

const names: Record<string, 'machine_id' | 'session_id' | 'replay_id' | 'type'> = {
  machine: 'machine_id', session: 'session_id', replay: 'replay_id', type: 'type',
};
const groups: Record<string, string[]> = {
  dead: ['failed', 'gave_up', 'expired'],
  open: ['scheduled', 'queued', 'in_flight', 'in_doubt'],
  waiting: ['scheduled', 'queued'],
};

export function parse(text: string): Search {
  const s: Search = { states: [], machine_id: '', session_id: '', replay_id: '', type: '', labels: [], id: '', wrong: [] };
  for (const word of text.split(/\s+/).filter(Boolean)) {
    const at = word.indexOf(':');
    const key = at < 0 ? '' : word.slice(0, at);
    const value = word.slice(at + 1);
    if (key === 'state' || key === 'is') {
      for (const v of value.split(',')) {
        if (groups[v]) s.states.push(...groups[v]);
        else if (actionStates.includes(v)) s.states.push(v);
        else if (v) s.wrong.push(`no state ${v}`);
      }
    } else if (names[key]) s[names[key]] = value;
    else if (key === 'label') s.labels.push(value);
    else s.id = word; // ids may have colons
  }
  s.states = [...new Set(s.states)];
  for (const l of s.labels) if (!l.includes(':')) s.wrong.push(`label:${l} needs key:value`);
  return s;
}

/** The bulk calls that together mean this search; null and why where there are none. */
export function selections(s: Search): Selection[] | string {
  if (s.id) return 'A single action is acted on by itself.';
  if (s.labels.length) return 'Acts on all that match cannot select by label; select rows instead.';
  const base: Selection = {};
  for (const k of ['machine_id', 'session_id', 'replay_id', 'type'] as const) if (s[k]) base[k] = s[k];
  if (s.states.length) return s.states.map((state) => ({ ...base, state }));
  return Object.keys(base).length ? [base] : 'Search for something first: acts on everything there is are refused.';
}

/** The search with one word put in, or taken out if it is there. */
export function toggle(text: string, word: string): string {
  const words = text.split(/\s+/).filter(Boolean);
  const key = word.slice(0, word.indexOf(':') + 1);
  return words.includes(word) ? words.filter((w) => w !== word).join(' ') : [...words.filter((w) => !w.startsWith(key)), word].join(' ');
}
