// Addresses of the dashboard: /ui/PAGE[/ID]?q=…; every view can be sent to a colleague.
import { signal } from '@preact/signals-core';

export interface Route {
  page: string;
  id: string;
  query: URLSearchParams;
}

function read(): Route {
  const [, ui, page, ...rest] = location.pathname.split('/');
  let id = '';
  try {
    id = decodeURIComponent(rest.join('/'));
  } catch {
    // an address that somebody cut: no such thing then
  }
  return { page: ui === 'ui' && page ? page : 'fleet', id, query: new URLSearchParams(location.search) };
}

export const route = signal<Route>(read());

export const href = (page: string, id?: string, query?: Record<string, string>) => {
  const q = new URLSearchParams(query).toString();
  return `/ui/${page}${id === undefined ? '' : '/' + encodeURIComponent(id)}${q ? '?' + q : ''}`;
};

/** Goes to an address, or takes the place of the present one. */
export function go(to: string, replace = false) {
  const before = location.pathname;
  if (replace) history.replaceState(null, '', to);
  else {
    history.pushState(null, '', to);
    scrollTo(0, 0);
  }
  route.value = read();
  // Who reads by ear, or goes on by keys, begins where the new page does.
  if (location.pathname !== before) document.getElementById('main')?.focus();
}

/** Changes parameters of the present address; empty ones go. */
export function setQuery(change: Record<string, string>) {
  const q = new URLSearchParams(location.search);
  for (const [name, value] of Object.entries(change)) value ? q.set(name, value) : q.delete(name);
  const text = q.toString();
  go(location.pathname + (text ? '?' + text : ''), true);
}

addEventListener('popstate', () => (route.value = read()));

// Links of our own pages change the view and load nothing.
document.addEventListener('click', (e) => {
  const link = (e.target as Element | null)?.closest?.('a');
  if (!link || e.defaultPrevented || e.button !== 0 || e.metaKey || e.ctrlKey || e.shiftKey || e.altKey) return;
  if (link.target || link.hash || link.origin !== location.origin || !link.pathname.startsWith('/ui')) return;
  e.preventDefault();
  go(link.pathname + link.search);
});
