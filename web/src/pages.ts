// A list read by cursor, in segments, kept true segment by segment. A cursor means
// "older than here". What was read again may have moved: what belongs to the next
// segment is cut off, and what was pushed out at the end goes to the next one.
import { reuse } from './live.ts';
import type { Page } from './types.ts';

export interface Segment<T> {
  cursor: string;
  items: T[];
}

export interface List<T> {
  segments: Segment<T>[];
  rows: T[];
  next?: string;
}

const whole = <T>(segments: Segment<T>[], next?: string): List<T> => ({ segments, rows: segments.flatMap((s) => s.items), next });

/** Appends the page that a list's next asked for. */
export function add<T>(l: List<T>, cursor: string, page: Page<T>): List<T> {
  return whole([...l.segments, { cursor, items: page.items }], page.next_cursor);
}

/** Puts a page that was read again in the place of the segment it was. */
export function merge<T>(l: List<T> | null, cursor: string, page: Page<T>, id: (t: T) => string): List<T> {
  const at = l?.segments.findIndex((s) => s.cursor === cursor) ?? -1;
  if (!l || at < 0) return whole([{ cursor, items: page.items }], page.next_cursor);
  const before = l.segments.slice(0, at);
  const after = l.segments.slice(at + 1);
  const old = l.segments[at]!.items;
  const items = reuse(old, page.items, id);
  const later = new Set(after.flatMap((s) => s.items.map(id)));
  const cut = items.findIndex((t) => later.has(id(t)));
  if (cut >= 0) return whole([...before, { cursor, items: items.slice(0, cut) }, ...after], l.next);
  const end = items.length ? old.findIndex((t) => id(t) === id(items[items.length - 1]!)) : -1;
  const tail = end < 0 ? [] : old.slice(end + 1);
  if (end < 0 || !page.next_cursor) {
    // So much is new that nothing below is known any more; or there is nothing below.
    return whole([...before, { cursor, items }], page.next_cursor);
  }
  if (!tail.length) return whole([...before, { cursor, items }, ...after], after.length ? l.next : page.next_cursor);
  const [next, ...rest] = after;
  const pushed = { cursor: page.next_cursor, items: next ? [...tail, ...next.items] : tail };
  return whole([...before, { cursor, items }, pushed, ...rest], l.next);
}

/** Drops segments far below what is in sight: a page that is open for days must not grow. */
export function trim<T>(l: List<T>, inSight: number, most: number): List<T> {
  if (l.rows.length <= inSight + most) return l;
  let n = 0;
  const keep = l.segments.findIndex((s) => (n += s.items.length) >= inSight + most / 2) + 1;
  const dropped = l.segments[keep];
  return keep > 0 && dropped ? whole(l.segments.slice(0, keep), dropped.cursor) : l;
}
