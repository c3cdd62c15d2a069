// Draws a component again when a signal that it reads has changed. @preact/signals
// would do it without being told, at the price of a tenth of the bundle.
import { effect, type ReadonlySignal } from '@preact/signals-core';
import { useEffect, useState } from 'preact/hooks';

export function use(...signals: ReadonlySignal<unknown>[]) {
  const [, draw] = useState(0);
  const drawn = signals.map((s) => s.peek());
  useEffect(
    () =>
      effect(() => {
        // The first run finds what changed between drawing and now.
        const changed = signals.map((s) => s.value).some((v, i) => v !== drawn[i]);
        if (changed) draw((n) => n + 1);
        for (const [i, s] of signals.entries()) drawn[i] = s.value;
      }),
    signals,
  );
}
