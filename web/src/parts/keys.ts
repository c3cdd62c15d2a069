// Keys. They are off while somebody types or a dialog asks.
import { paused } from '../feed.ts';
import { go, href } from '../route.ts';
import { showHelp } from './help.tsx';
import { nextTheme } from './theme.ts';

type Keys = Record<string, () => void>;

let page: Keys = {};
/** Sets what keys mean on the page that is shown; the page takes it back when it goes. */
export function pageKeys(keys: Keys): () => void {
  page = keys;
  return () => {
    if (page === keys) page = {};
  };
}

const pages: Record<string, string> = { f: 'fleet', a: 'actions', u: 'dead', w: 'webhooks', s: 'system' };
let g = 0; // until when a g waits for its letter

function typing(e: KeyboardEvent): boolean {
  const t = e.target as HTMLElement;
  return t.isContentEditable || /^(INPUT|TEXTAREA|SELECT)$/.test(t.tagName);
}

function press(e: KeyboardEvent) {
  if (e.ctrlKey || e.metaKey || e.altKey || document.querySelector('dialog')) return;
  if (typing(e)) {
    if (e.key === 'Escape') (e.target as HTMLElement).blur();
    return;
  }
  const after = g > performance.now();
  g = 0;
  if (after && pages[e.key]) {
    e.preventDefault();
    return go(href(pages[e.key]!));
  }
  const common: Keys = {
    g: () => (g = performance.now() + 1500),
    p: () => (paused.value = !paused.value),
    t: nextTheme,
    '?': showHelp,
    '/': () => document.querySelector<HTMLInputElement>('input[type=search]')?.focus(),
  };
  const does = page[e.key] ?? common[e.key];
  // Enter and space on a link or button are its own.
  if (!does || (e.key === 'Enter' && /^(A|BUTTON|SUMMARY)$/.test((e.target as Element).tagName))) return;
  e.preventDefault();
  does();
}

export const startKeys = () => addEventListener('keydown', press);
