// Small things that every page shows.
import { useState } from 'preact/hooks';
import type { ComponentChildren } from 'preact';
import { age, count, now } from '../clock.ts';
import { use } from '../use.ts';
import { says, tones } from '../words.ts';
import type { Live } from '../live.ts';

// Shapes tell states apart without colour.
const shapes: Record<string, string> = {
  online: 'M8 3a5 5 0 1 0 0 10A5 5 0 0 0 8 3z',
  grace: 'M8 2.5a5.5 5.5 0 1 0 0 11V11a3 3 0 0 1 0-6z',
  suspect: 'M8 2 14.5 13.5h-13zM7.2 6.5l.3 3.5h1l.3-3.5zM7.2 11h1.6v1.4H7.2z',
  offline: 'M8 2.5a5.5 5.5 0 1 0 0 11 5.5 5.5 0 0 0 0-11zM8 4.5a3.5 3.5 0 1 1 0 7 3.5 3.5 0 0 1 0-7z',
  scheduled: 'M8 2a6 6 0 1 0 0 12A6 6 0 0 0 8 2zm0 1.6a4.4 4.4 0 1 1 0 8.8 4.4 4.4 0 0 1 0-8.8zM7.3 5v3.4l2.6 1.9.9-1.2-2-1.4V5z',
  queued: 'M3 3.5h10v1.8H3zM3 7.1h10v1.8H3zM3 10.7h10v1.8H3z',
  in_flight: 'M4 2.5 13 8l-9 5.5z',
  in_doubt: 'M5 6a3 3 0 1 1 4.4 2.7c-.5.3-.6.5-.6 1.3H7.2c0-1.6.4-2.1 1.4-2.7A1.4 1.4 0 1 0 6.6 6zM7.1 11.3h1.8v1.9H7.1z',
  done: 'm6.3 12.6-4-4 1.3-1.3 2.7 2.7 6.1-6.1 1.3 1.3z',
  failed: 'm3 4.3 1.3-1.3L8 6.7 11.7 3 13 4.3 9.3 8l3.7 3.7-1.3 1.3L8 9.3 4.3 13 3 11.7 6.7 8z',
  gave_up: 'M8 1.8a6.2 6.2 0 1 0 0 12.4A6.2 6.2 0 0 0 8 1.8zM4.4 11.1 11.1 4.4l.9 1-6.6 6.6z',
  expired: 'M4 2h8v1.6c0 2-1.6 3.2-2.7 4.4 1.1 1.2 2.7 2.4 2.7 4.4V14H4v-1.6c0-2 1.6-3.2 2.7-4.4C5.6 6.8 4 5.6 4 3.6z',
  cancelled: 'M3.5 7h9v2h-9z',
  paused: 'M4 3h3v10H4zM9 3h3v10H9z',
  alert: 'M8 2 14.5 13.5h-13zM7.2 6.5l.3 3.5h1l.3-3.5zM7.2 11h1.6v1.4H7.2z',
  breaker: 'M2 7.2h3.5L9.8 4l.9 1.3L7.6 8H14v1.6H2z',
};

export function Icon({ name }: { name: string }) {
  return (
    <svg class="icon" viewBox="0 0 16 16" aria-hidden="true">
      <path d={shapes[name] ?? shapes.online} fill-rule="evenodd" />
    </svg>
  );
}

const iconOf: Record<string, string> = {
  open: 'breaker', half_open: 'breaker', active: 'online', closed: 'cancelled', paused_need_help: 'alert',
};

/** A state: shape, word and colour. */
export function State({ of, word }: { of: string; word?: string }) {
  return (
    <span class={`state ${tones[of] ?? 'off'}`}>
      <Icon name={iconOf[of] ?? of} />
      {word ?? says(of)}
    </span>
  );
}

/** How long ago; it alone is drawn again when the clock ticks. */
export function Ago({ at, after = '' }: { at?: string; after?: string }) {
  use(now);
  if (!at) return <span class="none">–</span>;
  return (
    <time dateTime={at} title={at}>
      {age(now.value - Date.parse(at))}
      {after}
    </time>
  );
}

/** A number; zero is grey, never noise. */
export function Num({ n, tone }: { n: number; tone?: string }) {
  return <span class={n === 0 ? 'none' : tone ?? ''}>{count(n)}</span>;
}

export async function copyText(text: string): Promise<boolean> {
  try {
    if (navigator.clipboard) {
      await navigator.clipboard.writeText(text);
      return true;
    }
  } catch {
    // forbidden, or no focus: the old way may still do
  }
  const area = document.createElement('textarea');
  area.value = text;
  area.className = 'offscreen';
  // A dialog makes the rest of the page inert: what is copied must lie within it.
  (document.querySelector('dialog[open]') ?? document.body).append(area);
  area.select();
  const done = document.execCommand('copy'); // the only way on plain http
  area.remove();
  return done;
}

export function Copy({ text, label }: { text: string; label: string }) {
  const [said, say] = useState('');
  const copy = async () => {
    say((await copyText(text)) ? 'copied' : 'select it and copy by hand');
    setTimeout(() => say(''), 1600);
  };
  return (
    <button type="button" class="small quiet" onClick={copy} title={text}>
      {said || label}
    </button>
  );
}

/** A line of shell with its copy button. */
export function Line({ text }: { text: string }) {
  return (
    <div class="line">
      <code>{text}</code>
      <Copy text={text} label="copy" />
    </div>
  );
}

export function Empty({ title, children }: { title: string; children?: ComponentChildren }) {
  return (
    <div class="empty">
      <p class="empty-title">{title}</p>
      {children}
    </div>
  );
}

/** What failed to load, and whether what stands below is old. A list that could not be read is never shown as empty. */
export function Fault<T>({ of, what }: { of: Live<T>; what: string }) {
  if (!of.error || of.error.status === 401) return null;
  return (
    <div class="fault" role="alert">
      <Icon name="alert" />
      <span>
        {of.stale ? `${what} could not be read again; this is how it was: ` : `${what} could not be read: `}
        {of.error.message}.
      </span>
      <button type="button" class="small" onClick={of.refresh}>
        Try again
      </button>
    </div>
  );
}

export function Facts({ rows }: { rows: [string, ComponentChildren][] }) {
  return (
    <dl class="facts">
      {rows
        .filter(([, v]) => v !== undefined && v !== '' && v !== null && v !== false)
        .map(([k, v]) => (
          <div key={k}>
            <dt>{k}</dt>
            <dd>{v}</dd>
          </div>
        ))}
    </dl>
  );
}

/** A small meter: 1/2 with its pips. */
export function Budget({ n, of, title }: { n: number; of: number; title: string }) {
  return (
    <span class={n === 0 ? 'none' : n >= of ? 'bad' : 'warn'} title={title}>
      {n}/{of}
    </span>
  );
}
