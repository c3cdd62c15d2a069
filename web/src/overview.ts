// The few numbers that every page shows, read once for all of them.
import { effect, signal } from '@preact/signals-core';
import { Failure, get, session } from './api.ts';
import { link, nudge, onFrame } from './feed.ts';
import type { Fleet, Queue } from './types.ts';

export const overview = signal<Queue | null>(null);
export const overviewError = signal('');
export const fleetTotals = signal<Fleet | null>(null);

let busy = false;
let again = false;

export async function readOverview() {
  if (busy) {
    again = true;
    return;
  }
  busy = true;
  try {
    const [queue, fleet] = await Promise.all([get<Queue>('/queue'), get<Fleet>('/v1/fleet?limit=1')]);
    overview.value = queue;
    fleetTotals.value = fleet;
    overviewError.value = '';
  } catch (e) {
    overviewError.value = (e as Error).message;
    // A stream can be dead without knowing; a request finds out.
    if (e instanceof Failure && e.status === 0 && link.peek().live) nudge();
  }
  busy = false;
  if (again) {
    again = false;
    void readOverview();
  }
}

const second = 1000;
let due = 0;

export function startOverview() {
  effect(() => {
    if (session.value?.signed_in && session.value.can.includes('read')) void readOverview();
  });
  // Numbers need not follow each frame: once a second is as quick as an eye.
  onFrame((f) => {
    if (f.all) return void readOverview();
    if (!due) due = window.setTimeout(() => ((due = 0), void readOverview()), second);
  });
  setInterval(() => {
    if (!document.hidden && session.peek()?.signed_in) void readOverview();
  }, 15 * second);
}
