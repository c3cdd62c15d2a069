// What a page shows: read by REST, and read again when the feed hints at a change.
import { useEffect, useRef, useState } from 'preact/hooks';
import { Failure, get } from './api.ts';
import { nudge, onFrame, link, type Frame } from './feed.ts';

export interface Live<T> {
  value?: T;
  error?: Failure;
  loading: boolean;
  /** True after a failure whose list stands as it was before. */
  stale: boolean;
  refresh: () => void;
}

interface Options<T> {
  read?: (path: string, signal: AbortSignal) => Promise<T>;
  wants?: (f: Frame) => boolean; // default: every frame
  every?: number; // ms: also without a hint
  merge?: (old: T, fresh: T) => T;
  keep?: boolean; // show the old value while another path loads
}

/** Reads path (null: nothing) and keeps it up to date, one request at a time. */
export function useLive<T>(path: string | null, o: Options<T> = {}): Live<T> {
  const [state, set] = useState<{ value?: T; error?: Failure; loading: boolean; path: string | null }>({ loading: true, path });
  const options = useRef(o);
  options.current = o;
  const refresh = useRef(() => {});
  useEffect(() => {
    if (path === null) {
      set({ loading: false, path });
      return;
    }
    const cut = new AbortController();
    let busy = false;
    let again = false;
    const load = async () => {
      if (busy) {
        again = true;
        return;
      }
      busy = true;
      try {
        const fresh = await (options.current.read ?? get)(path, cut.signal);
        const merge = options.current.merge;
        set((s) => ({ value: s.value !== undefined && s.path === path && merge ? merge(s.value, fresh) : fresh, loading: false, path }));
      } catch (e) {
        if (cut.signal.aborted) return;
        const error = e instanceof Failure ? e : new Failure(0, (e as Error).message);
        if (error.status === 0 && link.peek().live) nudge();
        set((s) => ({ value: s.path === path || options.current.keep ? s.value : undefined, error, loading: false, path }));
      } finally {
        busy = false;
      }
      if (again && !cut.signal.aborted) {
        again = false;
        void load();
      }
    };
    refresh.current = () => void load();
    set((s) => ({ value: options.current.keep ? s.value : undefined, loading: true, path }));
    void load();
    const off = onFrame((f) => {
      if (f.all || (options.current.wants?.(f) ?? true)) void load();
    });
    const timer = o.every ? window.setInterval(() => !document.hidden && void load(), o.every) : 0;
    return () => {
      cut.abort();
      off();
      clearInterval(timer);
    };
  }, [path]);
  const mine = state.path === path || o.keep;
  return {
    value: mine ? state.value : undefined,
    error: mine ? state.error : undefined,
    loading: state.loading || state.path !== path,
    stale: !!state.error && state.value !== undefined,
    refresh: () => refresh.current(),
  };
}

/** Keeps the old object of each item that has not changed, so that its row is not drawn again. */
export function reuse<T>(old: T[], fresh: T[], key: (t: T) => string): T[] {
  const known = new Map(old.map((t) => [key(t), t]));
  return fresh.map((t) => {
    const was = known.get(key(t));
    return was && JSON.stringify(was) === JSON.stringify(t) ? was : t;
  });
}
