// Tables that stay quick with 100,000 rows: only what is in sight is in the page,
// and a row is drawn again only when its own object is another.
import { Component, type ComponentChildren } from 'preact';
import { useEffect, useLayoutEffect, useRef, useState } from 'preact/hooks';
import { pageKeys } from './keys.ts';

export interface Column {
  name: string;
  label: string;
  cls?: string;
  sort?: string; // what the server sorts by
}

/** Draws its child again only when one of its own props has changed. */
class Row extends Component<{ item: unknown; index: number; selected: boolean; at: boolean; draw: () => ComponentChildren }> {
  override shouldComponentUpdate(next: Row['props']) {
    return next.item !== this.props.item || next.selected !== this.props.selected || next.at !== this.props.at || next.index !== this.props.index;
  }
  override render() {
    return this.props.draw();
  }
}

const overscan = 10;
const most = 150; // rows in the page at once

/** Which rows are in sight, by the window's own scrolling. */
export function useWindow(total: number, rowHeight: number) {
  const body = useRef<HTMLTableSectionElement>(null);
  const [range, set] = useState<[number, number]>([0, 50]);
  useLayoutEffect(() => {
    let frame = 0;
    const look = () => {
      frame = 0;
      const top = body.current?.getBoundingClientRect().top ?? 0;
      const first = Math.max(0, Math.floor(-top / rowHeight) - overscan);
      const last = Math.min(total, first + Math.min(most, Math.ceil(innerHeight / rowHeight) + 2 * overscan));
      set((was) => (was[0] === first && was[1] === last ? was : [first, last]));
    };
    const soon = () => (frame ||= requestAnimationFrame(look));
    look();
    addEventListener('scroll', soon, { passive: true });
    addEventListener('resize', soon);
    return () => {
      cancelAnimationFrame(frame);
      removeEventListener('scroll', soon);
      removeEventListener('resize', soon);
    };
  }, [total, rowHeight]);
  return { body, from: Math.min(range[0], Math.max(0, total - 1)), to: Math.min(range[1], total) };
}

/** True where a table becomes a list of cards. */
export function useNarrow(): boolean {
  const query = matchMedia('(max-width: 47.99rem)');
  const [narrow, set] = useState(query.matches);
  useEffect(() => {
    const on = () => set(query.matches);
    query.addEventListener('change', on);
    return () => query.removeEventListener('change', on);
  }, []);
  return narrow;
}

interface Props<T> {
  caption: string;
  columns: Column[];
  total: number;
  /** The item of a row; undefined while it is on its way. */
  item: (index: number) => T | undefined;
  id: (item: T) => string;
  cells: (item: T) => ComponentChildren[];
  open?: (item: T) => string;
  onRange?: (from: number, to: number) => void;
  sort?: string;
  onSort?: (by: string) => void;
  selected?: ReadonlySet<string>;
  onSelect?: (ids: Set<string>) => void;
  keys?: (item: T) => Record<string, () => void>;
  cardHeight?: number;
}

interface Cursor<T> {
  p: Props<T>;
  at: string | null; // the row that keys mean, by id: it may move
  from: number; // first row in the page
  body: { current: HTMLTableSectionElement | null };
}

function indexOf<T>({ p, at }: Cursor<T>): number {
  for (let i = 0; at && i < p.total; i++) {
    const one = p.item(i);
    if (one && p.id(one) === at) return i;
  }
  return -1;
}

/** Puts a row where it can be seen, and the focus on its link. */
function reveal(body: HTMLTableSectionElement | null, index: number, rowHeight: number) {
  const top = (body?.getBoundingClientRect().top ?? 0) + index * rowHeight;
  const fixed = 110; // what stays at the top
  if (top < fixed) scrollBy(0, top - fixed);
  else if (top + rowHeight > innerHeight - 70) scrollBy(0, top + rowHeight - innerHeight + 70);
  requestAnimationFrame(() => body?.querySelector<HTMLElement>(`[aria-rowindex="${index + 2}"] a`)?.focus({ preventScroll: true }));
}

function useRowKeys<T>(now: { current: Cursor<T> }, setAt: (id: string | null) => void, toggle: (index: number, range: boolean) => void, rowHeight: number) {
  useEffect(() => {
    const move = (by: number) => {
      const { p, from, body } = now.current;
      const was = indexOf(now.current);
      const next = Math.max(0, Math.min(p.total - 1, was < 0 ? from : was + by));
      const one = p.item(next);
      if (!one) return;
      setAt(p.id(one));
      reveal(body.current, next, rowHeight);
    };
    const onItem = (f: (item: T, index: number) => void) => () => {
      const i = indexOf(now.current);
      const one = i < 0 ? undefined : now.current.p.item(i);
      if (one) f(one, i);
    };
    return pageKeys({
      j: () => move(1),
      k: () => move(-1),
      x: onItem((_, i) => toggle(i, false)),
      c: onItem((one) => now.current.p.keys?.(one).c?.()),
      r: onItem((one) => now.current.p.keys?.(one).r?.()),
      Escape: () => {
        setAt(null);
        now.current.p.onSelect?.(new Set());
      },
    });
  }, [rowHeight]);
}

/** Selects a row or takes it out; with range, all from the last one on. */
function useToggle<T>(now: { current: Cursor<T> }) {
  const last = useRef(0);
  return (index: number, range: boolean) => {
    const { p } = now.current;
    const item = p.item(index);
    if (!item || !p.onSelect) return;
    const ids = new Set(p.selected);
    const on = !ids.has(p.id(item));
    const [from, to] = range ? [Math.min(last.current, index), Math.max(last.current, index)] : [index, index];
    for (let i = from; i <= to; i++) {
      const one = p.item(i);
      if (one) on ? ids.add(p.id(one)) : ids.delete(p.id(one));
    }
    last.current = index;
    p.onSelect(ids);
  };
}

function Pick({ id, on, toggle }: { id: string; on: boolean; toggle: (range: boolean) => void }) {
  const click = (e: MouseEvent) => {
    e.preventDefault(); // what is checked follows the selection
    toggle(e.shiftKey);
  };
  return (
    <td class="pick">
      <input type="checkbox" aria-label={`select ${id}`} checked={on} onClick={click} />
    </td>
  );
}

function Cells({ columns, cells }: { columns: Column[]; cells: ComponentChildren[] }) {
  return (
    <>
      {columns.map((c, i) =>
        i === 0 ? (
          <th key={c.name} scope="row" class={c.cls}>
            {cells[i]}
          </th>
        ) : (
          <td key={c.name} class={c.cls} data-label={c.label}>
            {cells[i]}
          </td>
        ),
      )}
    </>
  );
}

function Head<T>({ p }: { p: Props<T> }) {
  return (
    <thead>
      <tr aria-rowindex={1}>
        {p.onSelect && <td class="pick" />}
        {p.columns.map((c) => (
          <th key={c.name} scope="col" class={c.cls} aria-sort={c.sort && p.sort === c.sort ? 'descending' : undefined}>
            {c.sort && p.onSort ? (
              <button type="button" class="sort" onClick={() => p.onSort!(c.sort!)}>
                {c.label}
                {p.sort === c.sort && <span aria-hidden="true"> ▾</span>}
              </button>
            ) : (
              c.label
            )}
          </th>
        ))}
      </tr>
    </thead>
  );
}

export function Table<T>(p: Props<T>) {
  const narrow = useNarrow();
  const rowHeight = narrow ? p.cardHeight ?? 148 : 38;
  const { body, from, to } = useWindow(p.total, rowHeight);
  const [at, setAt] = useState<string | null>(null);
  const now = useRef<Cursor<T>>({ p, at, from, body });
  now.current = { p, at, from, body };
  const toggle = useToggle(now);
  useRowKeys(now, setAt, toggle, rowHeight);
  useEffect(() => p.onRange?.(from, to), [from, to]);
  const width = p.columns.length + 1;
  const row = (i: number) => {
    const item = p.item(i);
    if (!item) return <tr key={`#${i}`} class="coming" aria-rowindex={i + 2}><td colSpan={width}>…</td></tr>;
    const id = p.id(item);
    const on = p.selected?.has(id) ?? false;
    const draw = () => (
      <tr aria-rowindex={i + 2} aria-selected={p.onSelect ? on : undefined} class={at === id ? 'at' : ''} onFocusIn={() => setAt(id)}>
        {p.onSelect && <Pick id={id} on={on} toggle={(range) => toggle(i, range)} />}
        <Cells columns={p.columns} cells={p.cells(item)} />
      </tr>
    );
    return <Row key={id} item={item} index={i} selected={on} at={at === id} draw={draw} />;
  };
  const spacer = (n: number, key: string) => n > 0 && <tr key={key} class="spacer" aria-hidden="true"><td colSpan={width} style={{ height: `${n * rowHeight}px` }} /></tr>;
  return (
    <table class={narrow ? 'cards' : 'grid'} aria-rowcount={p.total + 1} style={{ '--row': `${rowHeight}px` }}>
      <caption class="offscreen">{p.caption}</caption>
      <Head p={p} />
      <tbody ref={body}>
        {spacer(from, 'above')}
        {Array.from({ length: Math.max(0, to - from) }, (_, i) => row(from + i))}
        {spacer(p.total - to, 'below')}
      </tbody>
    </table>
  );
}
