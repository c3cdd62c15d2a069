// The one dialog, and what is said after an act. A button names what it does.
import { signal } from '@preact/signals-core';
import type { ComponentChildren } from 'preact';
import { useEffect, useRef, useState } from 'preact/hooks';
import { may } from '../api.ts';
import { curl, run, type Act } from '../acts.ts';
import { resync } from '../feed.ts';
import { use } from '../use.ts';
import { Copy, Icon } from './bits.tsx';

export interface Field {
  name: string;
  label: string;
  kind?: 'text' | 'area' | 'choice' | 'check' | 'number';
  value?: string;
  options?: [string, string][];
  required?: boolean;
  hint?: string;
  check?: (value: string) => string; // what is wrong with it
}

export type Values = Record<string, string>;

export interface Question {
  title: string;
  text?: string;
  button: string | ((v: Values) => string);
  danger?: boolean;
  fields?: Field[];
  /** The act, or several that belong together. */
  act: (v: Values) => Act | Act[];
  /** Instead of one answer's words. */
  perform?: (v: Values, progress: (text: string) => void) => Promise<string>;
  done?: () => void;
  /** What the server said is read in the dialog, which stays. */
  stays?: boolean;
}

const question = signal<Question | null>(null);

/** Asks before an act. */
export const ask = (q: Question) => (question.value = q);

interface Said {
  id: number;
  text: string;
  bad: boolean;
}

const said = signal<Said[]>([]);
let serial = 0;

/** Says what came of an act; it goes by itself, a refusal later than a success. */
export function say(text: string, bad = false) {
  const id = ++serial;
  said.value = [...said.value.slice(-3), { id, text, bad }];
  setTimeout(() => (said.value = said.value.filter((s) => s.id !== id)), bad ? 15_000 : 6_000);
}

/** Does an act at once and says what the server said. */
export async function doNow(a: Act) {
  try {
    say(await run(a));
  } catch (e) {
    say((e as Error).message, true);
  }
  resync();
}

export function Said() {
  use(said);
  return (
    <div class="said" role="status" aria-live="polite">
      {said.value.map((s) => (
        <p key={s.id} class={s.bad ? 'bad' : ''}>
          <Icon name={s.bad ? 'alert' : 'done'} />
          <span>{s.text}</span>
          <button type="button" class="small quiet" aria-label="Dismiss" onClick={() => (said.value = said.value.filter((o) => o.id !== s.id))}>
            ✕
          </button>
        </p>
      ))}
    </div>
  );
}

/** A button for an act. Where the token may not, it stays to be seen and says why. */
export function Do({ power = 'operate', cls, on, children }: { power?: string; cls?: string; on: () => void; children: ComponentChildren }) {
  const why = may(power) ? undefined : `Your token lacks the scope ${power}.`;
  return (
    <button type="button" class={cls} aria-disabled={why ? true : undefined} title={why} onClick={() => (why ? say(why, true) : on())}>
      {children}
    </button>
  );
}

function Input({ f, value, set, wrong }: { f: Field; value: string; set: (v: string) => void; wrong: string }) {
  const id = `field-${f.name}`;
  const props = { id, name: f.name, required: f.required, 'aria-describedby': wrong ? `${id}-wrong` : undefined, 'aria-invalid': wrong ? true : undefined };
  const on = (e: { currentTarget: { value: string } }) => set(e.currentTarget.value);
  if (f.kind === 'check') {
    return (
      <label class="check">
        <input {...props} type="checkbox" checked={value === 'yes'} onChange={(e) => set(e.currentTarget.checked ? 'yes' : '')} />
        {f.label}
      </label>
    );
  }
  return (
    <div class="field">
      <label for={id}>{f.label}</label>
      {f.kind === 'area' ? (
        <textarea {...props} rows={5} spellcheck={false} value={value} onInput={on} />
      ) : f.kind === 'choice' ? (
        <select {...props} value={value} onChange={on}>
          {f.options?.map(([v, text]) => (
            <option key={v} value={v}>
              {text}
            </option>
          ))}
        </select>
      ) : (
        <input {...props} type="text" inputMode={f.kind === 'number' ? 'numeric' : undefined} autocomplete="off" spellcheck={false} value={value} onInput={on} />
      )}
      {f.hint && !wrong && <p class="hint">{f.hint}</p>}
      {wrong && (
        <p class="wrong" id={`${id}-wrong`}>
          {wrong}
        </p>
      )}
    </div>
  );
}

export function Dialog() {
  use(question);
  const q = question.value;
  return q ? <Asked key={q.title} q={q} /> : null;
}

function Asked({ q }: { q: Question }) {
  const box = useRef<HTMLDialogElement>(null);
  const [values, setValues] = useState<Values>(() => Object.fromEntries((q.fields ?? []).map((f) => [f.name, f.value ?? ''])));
  const [busy, setBusy] = useState('');
  const [error, setError] = useState('');
  const [answer, setAnswer] = useState('');
  const back = useRef(document.activeElement as HTMLElement | null);
  useEffect(() => {
    box.current?.showModal();
    return () => back.current?.isConnected && back.current.focus();
  }, []);
  const close = () => (question.value = null);
  const wrong = (f: Field) => (f.check && values[f.name] ? f.check(values[f.name]!) : '');
  const blocked = (q.fields ?? []).some((f) => (f.required && !values[f.name]) || wrong(f));
  const acts = [q.act(values)].flat();
  const submit = async (e: Event) => {
    e.preventDefault();
    if (busy || blocked) return;
    setBusy('…');
    setError('');
    setAnswer('');
    try {
      let text = '';
      if (q.perform) text = await q.perform(values, setBusy);
      else for (const a of acts) text += (text ? ' ' : '') + (await run(a));
      if (q.stays) setAnswer(text);
      else {
        close();
        say(text);
      }
      q.done?.();
    } catch (e) {
      setError((e as Error).message);
    }
    setBusy('');
    resync();
  };
  const button = typeof q.button === 'string' ? q.button : q.button(values);
  return (
    <dialog ref={box} aria-labelledby="dialog-title" onCancel={close} onClose={close}>
      <form onSubmit={submit}>
        <h2 id="dialog-title">{q.title}</h2>
        {q.text && <p>{q.text}</p>}
        {q.fields?.map((f) => (
          <Input key={f.name} f={f} value={values[f.name] ?? ''} wrong={wrong(f)} set={(v) => setValues((old) => ({ ...old, [f.name]: v }))} />
        ))}
        {answer && <pre class="raw" tabIndex={0} aria-label="The answer">{answer}</pre>}
        {error && (
          <p class="fault" role="alert">
            <Icon name="alert" />
            <span>{error}</span>
          </p>
        )}
        <div class="buttons">
          <span class="copies">
            {acts[0] && <Copy text={acts.map(curl).join('\n')} label="copy as curl" />}
            {acts[0]?.cli && <Copy text={acts.map((a) => a.cli).join('\n')} label="copy as pushctl" />}
          </span>
          <button type="button" autofocus={!q.fields} onClick={close}>
            Leave it
          </button>
          <button type="submit" class={q.danger ? 'danger' : 'primary'} disabled={!!busy || blocked}>
            {busy ? `${button} ${busy}` : button}
          </button>
        </div>
      </form>
    </dialog>
  );
}
