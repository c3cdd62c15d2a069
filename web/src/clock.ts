// Ages are told by the server's clock: a reader's own may be wrong, and an age that
// is negative helps nobody.
import { signal } from '@preact/signals-core';

let ahead = 0; // of the server's clock over ours, in ms

/** The server's now, in ms; it ticks once a second. Read it only in small parts. */
export const now = signal(Date.now());

/** Sets our clock by an answer's. */
export function setClock(serverTime: string) {
  const at = Date.parse(serverTime);
  if (Number.isNaN(at)) return;
  ahead = at - Date.now();
  if (Math.abs(at - now.peek()) > 1500) tick(); // what is read before the next tick must not be hours off
}

const tick = () => {
  if (!document.hidden) now.value = Date.now() + ahead;
};
setInterval(tick, 1000);
document.addEventListener('visibilitychange', tick);

/** A duration in one or two words: 2.1 s, 4 min, 3 h 10 min. */
export function span(ms: number): string {
  const s = Math.max(0, ms) / 1000;
  if (s < 0.001) return '0 s';
  if (s < 1) return `${Math.round(s * 1000)} ms`;
  if (s < 10) return `${Math.round(s * 10) / 10} s`;
  if (s < 60) return `${Math.round(s)} s`;
  const min = Math.floor(s / 60);
  if (min < 60) return min < 10 && s % 60 >= 1 ? `${min} min ${Math.floor(s % 60)} s` : `${min} min`;
  const h = Math.floor(min / 60);
  if (h < 24) return h < 10 && min % 60 ? `${h} h ${min % 60} min` : `${h} h`;
  return `${Math.floor(h / 24)} d`;
}

/** How long ago in whole seconds, minutes, hours or days. */
export function age(ms: number): string {
  const s = Math.floor(Math.max(0, ms) / 1000);
  if (s < 60) return `${s} s`;
  if (s < 3600) return `${Math.floor(s / 60)} min`;
  if (s < 86400) return `${Math.floor(s / 3600)} h`;
  return `${Math.floor(s / 86400)} d`;
}

/** An instant as the reader's own clock would show it, with the date if it is not today's. */
export function moment(at: string): string {
  const d = new Date(at);
  const two = (n: number, w = 2) => String(n).padStart(w, '0');
  const time = `${two(d.getHours())}:${two(d.getMinutes())}:${two(d.getSeconds())}.${two(d.getMilliseconds(), 3)}`;
  const day = `${d.getFullYear()}-${two(d.getMonth() + 1)}-${two(d.getDate())}`;
  return new Date(now.peek()).toDateString() === d.toDateString() ? time : `${day} ${time}`;
}

export const count = (n: number) => n.toLocaleString('en');
