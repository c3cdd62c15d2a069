// The keys, on `?`.
import { signal } from '@preact/signals-core';
import { use } from '../use.ts';
import { useEffect, useRef } from 'preact/hooks';

const open = signal(false);
export const showHelp = () => (open.value = true);

const keys: [string, string][] = [
  ['/', 'search'],
  ['j  k', 'next, previous row'],
  ['x', 'select the row; shift-click selects a range'],
  ['Enter', 'open the row'],
  ['c  r', 'cancel, redrive'],
  ['p', 'pause and resume the live view'],
  ['g then f a u w s', 'Fleet, Actions, Given up, Webhooks, System'],
  ['t', 'theme: system, dark, light'],
  ['Esc', 'close, deselect'],
];

export function Help() {
  use(open);
  return open.value ? <Keys /> : null;
}

function Keys() {
  const box = useRef<HTMLDialogElement>(null);
  useEffect(() => box.current?.showModal(), []);
  const close = () => (open.value = false);
  return (
    <dialog ref={box} aria-labelledby="help-title" onClose={close}>
      <h2 id="help-title">Keys</h2>
      <dl class="keys">
        {keys.map(([k, what]) => (
          <div key={k}>
            <dt>
              {k.split(' ').filter(Boolean).map((one) => (one === 'then' ? ' then ' : <kbd key={one}>{one}</kbd>))}
            </dt>
            <dd>{what}</dd>
          </div>
        ))}
      </dl>
      <div class="buttons">
        <button type="button" class="primary" autofocus onClick={close}>
          Close
        </button>
      </div>
    </dialog>
  );
}
