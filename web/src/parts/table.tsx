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

export function Table<T>(p: Props<T>) {
  const narrow = useNarrow();
  const rowHeight = narrow ? p.cardHeight ?? 148 : 38;
  const w = useWindow(p.total, rowHeight);
  const [at, setAt] = useState<string | null>(null); // the row that keys mean, by id: it may move
  const lastIndex = useRef(0);
  const now = useRef({ p, at, w });
  now.current = { p, at, w };
  useEffect(() => p.onRange?.(w.from, w.to), [w.from, w.to]);

  const toggle = (index: number, range: boolean) => {
    const { p } = now.current;
    const item = p.item(index);
    if (!item || !p.onSelect) return;
    const ids = new Set(p.selected);
    const on = !ids.has(p.id(item));
    const [from, to] = range ? [Math.min(lastIndex.current, index), Math.max(lastIndex.current, index)] : [index, index];
    for (let i = from; i <= to; i++) {
      const one = p.item(i);
      if (one) on ? ids.add(p.id(one)) : ids.delete(p.id(one));
    }
    lastIndex.current = index;
    p.onSelect(ids);
  };

  useEffect(() => {
    const index = () => {
      const { p, at } = now.current;
      for (let i = 0; at && i < p.total; i++) {
        const one = p.item(i);
        if (one && p.id(one) === at) return i;
      }
      return -1;
    };
    const move = (by: number) => {
      const { p, w } = now.current;
      const was = index();
      const next = Math.max(0, Math.min(p.total - 1, was < 0 ? w.from : was + by));
      const one = p.item(next);
      if (!one) return;
      setAt(p.id(one));
      const top = (w.body.current?.getBoundingClientRect().top ?? 0) + next * rowHeight;
      const room = 110; // what is fixed at the top
      if (top < room) scrollBy(0, top - room);
      else if (top + rowHeight > innerHeight - 70) scrollBy(0, top + rowHeight - innerHeight + 70);
      requestAnimationFrame(() => w.body.current?.querySelector<HTMLElement>(`[aria-rowindex="${next + 2}"] a`)?.focus({ preventScroll: true }));
    };
    const onItem = (f: (item: T, index: number) => void) => () => {
      const i = index();
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

  const rows: ComponentChildren[] = [];
  for (let i = w.from; i < w.to; i++) {
    const item = p.item(i);
    if (!item) {
      rows.push(
        <tr key={`#${i}`} class="coming" aria-rowindex={i + 2}>
          <td colSpan={p.columns.length + 1}>…</td>
        </tr>,
      );
      continue;
    }
    const id = p.id(item);
    const isSelected = p.selected?.has(id) ?? false;
    rows.push(
      <Row
        key={id}
        item={item}
        index={i}
        selected={isSelected}
        at={at === id}
        draw={() => (
          <tr aria-rowindex={i + 2} aria-selected={p.onSelect ? isSelected : undefined} class={at === id ? 'at' : ''} onFocusIn={() => setAt(id)}>
            {p.onSelect && (
              <td class="pick">
                <input
                  type="checkbox"
                  aria-label={`select ${id}`}
                  checked={isSelected}
                  onClick={(e) => {
                    e.preventDefault(); // what is checked follows the selection
                    toggle(i, e.shiftKey);
                  }}
                />
              </td>
            )}
            {p.cells(item).map((cell, c) => {
              const column = p.columns[c]!;
              return c === 0 ? (
                <th key={column.name} scope="row" class={column.cls}>
                  {cell}
                </th>
              ) : (
                <td key={column.name} class={column.cls} data-label={column.label}>
                  {cell}
                </td>
              );
            })}
          </tr>
        )}
      />,
    );
  }
  const spacer = (n: number, key: string) => n > 0 && <tr key={key} class="spacer" aria-hidden="true"><td colSpan={p.columns.length + 1} style={{ height: `${n * rowHeight}px` }} /></tr>;
  return (
    <table class={narrow ? 'cards' : 'grid'} aria-rowcount={p.total + 1} style={{ '--row': `${rowHeight}px` }}>
      <caption class="offscreen">{p.caption}</caption>
      <thead>
        <tr aria-rowindex={1}>
          {p.onSelect && (
            <td class="pick"/>
          )}
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
      <tbody ref={w.body}>
        {spacer(w.from, 'above')}
        {rows}
        {spacer(p.total - w.to, 'below')}
      </tbody>
    </table>
  );
}
