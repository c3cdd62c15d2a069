// Values that tell who has read them when they change: what is used here of
// @preact/signals-core, at a quarter of its bytes.

export interface ReadonlySignal<T> {
  readonly value: T;
  /** The value, without wanting to be told when it changes. */
  peek(): T;
}

export interface Signal<T> extends ReadonlySignal<T> {
  value: T;
}

interface Effect {
  run: () => void;
  read: Set<Set<Effect>>; // the readers of all that it has read
}

let reader: Effect | undefined;

export function signal<T>(now: T): Signal<T> {
  const readers = new Set<Effect>();
  return {
    get value() {
      if (reader) {
        readers.add(reader);
        reader.read.add(readers);
      }
      return now;
    },
    set value(next) {
      if (next === now) return;
      now = next;
      // An effect may end another one, which is not to run then.
      for (const e of [...readers]) if (readers.has(e)) e.run();
    },
    peek: () => now,
  };
}

function readAs(who: Effect | undefined, f: () => void) {
  const before = reader;
  reader = who;
  try {
    f();
  } finally {
    reader = before;
  }
}

/** Runs f now, and again whenever something that it has read changes, until what it returns is called. */
export function effect(f: () => void): () => void {
  const end = () => {
    for (const readers of self.read) readers.delete(self);
    self.read.clear();
  };
  const self: Effect = {
    read: new Set(),
    run() {
      end();
      readAs(self, f);
    },
  };
  self.run();
  return end;
}

export const untracked = (f: () => void) => readAs(undefined, f);

export function computed<T>(f: () => T): ReadonlySignal<T> {
  const s = signal(undefined as T);
  effect(() => (s.value = f()));
  return s;
}
