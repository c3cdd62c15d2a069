// The questions before each act, so that a page only says which.
import { bulk, cancel, closeBreaker, closeLabel, credit, dryRun, each, forget, pause, push, redrive, resolve, resume, type Selection } from '../acts.ts';
import { count } from '../clock.ts';
import { selected } from '../feed.ts';
import { wrongJSON } from '../raw.ts';
import { says } from '../words.ts';
import type { Action, Breaker } from '../types.ts';
import { ask } from './dialog.tsx';

export function askCancel(a: Pick<Action, 'action_id' | 'state'>) {
  ask({
    title: `Cancel ${a.action_id}?`,
    text:
      a.state === 'in_flight'
        ? 'Its agent is asked to stop. It may have done the work already; then it ends done. This cannot be undone.'
        : 'It will not be sent. It can be redriven later.',
    button: 'Cancel the action',
    danger: true,
    act: () => cancel(a.action_id),
  });
}

export function askRedrive(a: Pick<Action, 'action_id' | 'state' | 'machine_id'>) {
  ask({
    title: `Redrive ${a.action_id}?`,
    text: `It is queued again for ${a.machine_id}, at its old place, with full budgets and without an expiry. ${
      a.state === 'gave_up' || a.state === 'in_doubt' ? 'Nobody knows whether the machine has done it: it may be done twice.' : ''
    }`,
    button: 'Redrive the action',
    act: () => redrive(a.action_id),
  });
}

export function askResolve(a: Pick<Action, 'action_id'>) {
  ask({
    title: `What became of ${a.action_id}?`,
    text: 'You say what the agent never said. It is settled by your word.',
    button: (v) => `Resolve as ${v.as}`,
    fields: [
      { name: 'as', label: 'It is', kind: 'choice', value: 'done', options: [['done', 'done'], ['failed', 'failed']] },
      { name: 'note', label: 'How you know (kept with it)' },
    ],
    act: (v) => resolve(a.action_id, v.as ?? 'done', v.note ?? ''),
  });
}

export function askPause(scope: 'machine' | 'session' | 'replay', id: string) {
  ask({
    title: `Pause ${scope} ${id}?`,
    text: 'Nothing more is sent. What is in flight goes on, and its acks are taken.',
    button: `Pause the ${scope}`,
    fields: [
      { name: 'note', label: 'Why (others will read it)' },
      { name: 'for', label: 'Resumes by itself', kind: 'choice', value: '0', options: [['0', 'never: until somebody resumes it'], ['10', 'after 10 minutes'], ['60', 'after 1 hour'], ['480', 'after 8 hours'], ['1440', 'after a day']] },
    ],
    act: (v) => pause(scope, id, v.note ?? '', Number(v.for)),
  });
}

export function askResume(scope: 'machine' | 'session' | 'replay', id: string, causes: string) {
  ask({
    title: `Resume ${scope} ${id}?`,
    text: `All causes end${causes ? ` (${causes})` : ''}, and what is due is sent.`,
    button: `Resume the ${scope}`,
    act: () => resume(scope, id),
  });
}

export function askCloseLabel(scope: 'session' | 'replay', id: string, open: number) {
  ask({
    title: `Cancel the whole ${scope} ${id}?`,
    text: `${count(open)} unsettled actions are cancelled or asked to stop, and later pushes with this ${scope} are refused until it is resumed.`,
    button: `Cancel and close the ${scope}`,
    danger: true,
    act: () => closeLabel(scope, id),
  });
}

export function askCloseBreaker(b: Breaker) {
  ask({
    title: `Close the breaker${b.target ? ` of ${b.target}` : ''}?`,
    text: `${b.machine_id ? `On ${b.machine_id}. ` : 'For all machines. '}What waits behind it is sent at once. If the service is still missing it opens again.`,
    button: 'Close the breaker',
    act: () => closeBreaker(b),
  });
}

export function askCredit(id: string, present: number) {
  ask({
    title: `How much may ${id} have in flight?`,
    text: 'Your limit holds until you lift it; the agent’s own, if lower, goes on. Lowering withdraws nothing.',
    button: (v) => (v.max === '' ? 'Lift the limit' : `Set the limit to ${v.max}`),
    fields: [
      { name: 'max', label: 'At most', kind: 'number', value: String(present), hint: 'Empty lifts your limit; 0 stops dispatch.', check: (v) => (/^\d{1,4}$/.test(v) && Number(v) <= 1000 ? '' : 'a whole number from 0 to 1,000') },
      { name: 'reason', label: 'Why' },
    ],
    act: (v) => credit(id, v.max === '' || v.max === undefined ? null : Number(v.max), v.reason ?? ''),
  });
}

export function askPush(machine: string) {
  ask({
    title: machine ? `Push a test action to ${machine}` : 'Push a test action',
    button: 'Push the action',
    fields: [
      { name: 'machine', label: 'Machine', value: machine, required: true },
      { name: 'type', label: 'Type', value: 'test', required: true },
      { name: 'payload', label: 'Payload (JSON)', kind: 'area', value: '{"hello": 1}', check: wrongJSON },
      { name: 'session', label: 'Session (optional: a lane in strict order)' },
      { name: 'once', label: 'At most once: never sent again by itself', kind: 'check' },
    ],
    act: (v) => push({ machine: v.machine ?? '', type: v.type ?? '', payload: v.payload ?? '', session: v.session ?? '', once: v.once === 'yes' }),
  });
}

export function askForget(id: string) {
  ask({
    title: `Forget ${id}?`,
    text: 'It goes from all lists. An agent that subscribes under this id makes it known again. The server refuses while it is there or has something unsettled.',
    button: 'Forget the machine',
    danger: true,
    act: () => forget(id),
  });
}

const doing = { cancel: 'Cancel', redrive: 'Redrive' } as const;
const acts = { cancel, redrive };

/** One act on each of some actions, told one by one. */
export function askEach(verb: 'cancel' | 'redrive', ids: string[], of = '') {
  const n = count(ids.length);
  const noun = `${n} action${ids.length === 1 ? '' : 's'}`;
  ask({
    title: `${doing[verb]} ${noun}${of ? ` ${of}` : ''}?`,
    text: verb === 'cancel' ? 'What is in flight may have been done already; its agents are asked to stop.' : 'They are queued again at their old places, with full budgets. What was given up may be done twice.',
    button: `${doing[verb]} ${noun}`,
    danger: verb === 'cancel',
    act: () => ids.slice(0, 20).map((id) => acts[verb](id)),
    perform: async (_, progress) => {
      const out = await each(ids, acts[verb], (i) => progress(`${i}/${n}`));
      const refused = out.refused.length ? ` ${out.refused.length} refused: ${out.refused.slice(0, 3).map((r) => r.why).join('; ')}.` : '';
      return `${verb === 'cancel' ? 'Cancelled or asked to stop' : 'Queued again'}: ${count(out.done)} of ${n}.${refused}`;
    },
    done: () => (selected.value = new Set()),
  });
}

/** An act on all that matches a filter, after the server has counted them. */
export async function askAll(verb: 'cancel' | 'redrive', all: Selection[], words: string) {
  const n = await dryRun(verb, all);
  const noun = `${count(n)} action${n === 1 ? '' : 's'}`;
  ask({
    title: n ? `${doing[verb]} ${noun}?` : `Nothing to ${verb}`,
    text: n
      ? `All that match ${words} and can be ${verb === 'cancel' ? 'cancelled' : 'redriven'}, by the server's count a moment ago; not only those on this page. ${
          verb === 'cancel' ? 'What is in flight may have been done already.' : 'What was given up may be done twice.'
        }`
      : `Of what matches ${words}, nothing can be ${verb === 'cancel' ? 'cancelled' : 'redriven'} now.`,
    button: `${doing[verb]} ${noun}`,
    danger: verb === 'cancel',
    act: () => all.map((s) => bulk(verb, s, false)),
    done: () => (selected.value = new Set()),
  });
}

export const canCancel = (state: string) => ['scheduled', 'queued', 'in_flight', 'in_doubt'].includes(state);
export const canRedrive = (state: string) => ['in_doubt', 'failed', 'gave_up', 'expired', 'cancelled'].includes(state);
export const canResolve = (state: string) => ['in_doubt', 'gave_up'].includes(state);
export const notNow = (verb: string, state: string) => `nothing to ${verb}: it is ${says(state)}`;
