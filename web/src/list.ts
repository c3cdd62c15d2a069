// The list of actions: read page by page as it is scrolled, and kept true. On a hint
// its first page and the pages in sight are read again, not all that was loaded.
import { useEffect, useRef, useState } from 'preact/hooks';
import { Failure, get, seg, send, url } from './api.ts';
import { onFrame } from './feed.ts';
import { add, merge, trim, type List } from './pages.ts';
import { parse, type Search } from './search.ts';
import type { Action, Page } from './types.ts';

const pageSize = 100;
/** More rows than anybody scrolls through; a search finds the others. */
export const mostRows = 20_000;

export function listPath(s: Search, cursor: string) {
  return url('/v1/actions', { state: s.states, machine_id: s.machine_id, session_id: s.session_id, replay_id: s.replay_id, type: s.type, label: s.labels, limit: pageSize, cursor });
}

async function readPage(s: Search, cursor: string, signal: AbortSignal): Promise<Page<Action>> {
  if (!s.id) return get<Page<Action>>(listPath(s, cursor), signal);
  try {
    const text = await send('GET', `/v1/actions/${seg(s.id)}`, undefined, signal);
    return { items: [JSON.parse(text) as Action] };
  } catch (e) {
    if (e instanceof Failure && e.status === 404) return { items: [] };
    throw e;
  }
}

const id = (a: Action) => a.action_id;

/** Cursors of the segments that lie in sight, but for the first. */
function inSight(l: List<Action>, [from, to]: [number, number]): string[] {
  let at = 0;
  return l.segments
    .filter((s) => {
      const begins = at;
      at += s.items.length;
      return s.cursor && begins < to && at > from;
    })
    .map((s) => s.cursor);
}

interface Shown {
  list: List<Action> | null;
  error?: Failure;
  busy: boolean;
}

/** Follows one search. One request is out at a time; what is asked for meanwhile is done once, after it. */
class Follower {
  range: [number, number] = [0, 50];
  private cut = new AbortController();
  private running = false;
  private next: 'renew' | 'extend' | '' = '';
  private list: List<Action> | null = null;

  constructor(private search: Search, private show: (s: Partial<Shown>) => void) {}

  stop() {
    this.cut.abort();
  }

  async work(what: 'renew' | 'extend') {
    if (this.running) {
      if (this.next !== 'renew') this.next = what;
      return;
    }
    this.running = true;
    this.show({ busy: true });
    let error: Failure | undefined;
    try {
      if (what === 'renew') await this.renew();
      await this.extend();
    } catch (e) {
      error = e instanceof Failure ? e : new Failure(0, (e as Error).message);
    }
    this.running = false;
    if (this.cut.signal.aborted) return;
    this.show({ busy: false, error });
    const next = this.next;
    this.next = '';
    if (next) void this.work(next);
  }

  private read = (cursor: string) => readPage(this.search, cursor, this.cut.signal);

  private put(list: List<Action>) {
    this.list = list;
    this.show({ list });
  }

  private async renew() {
    this.put(trim(merge(this.list, '', await this.read(''), id), this.range[1], 1000));
    for (const cursor of inSight(this.list!, this.range)) this.put(merge(this.list, cursor, await this.read(cursor), id));
  }

  private async extend() {
    while (this.list?.next && this.list.rows.length < Math.min(this.range[1] + pageSize / 2, mostRows)) {
      const cursor = this.list.next;
      this.put(add(this.list, cursor, await this.read(cursor)));
    }
  }
}

export function useList(q: string) {
  const [shown, set] = useState<Shown>({ list: null, busy: true });
  const follower = useRef<Follower | null>(null);
  useEffect(() => {
    set({ list: null, busy: true });
    const f = new Follower(parse(q), (s) => set((was) => ({ ...was, ...s })));
    follower.current = f;
    void f.work('renew');
    const off = onFrame(() => void f.work('renew'));
    return () => {
      off();
      f.stop();
    };
  }, [q]);
  return {
    ...shown,
    refresh: () => void follower.current?.work('renew'),
    onRange: (from: number, to: number) => {
      if (!follower.current) return;
      follower.current.range = [from, to];
      void follower.current.work('extend');
    },
  };
}
