// What is around every page: where one can go, whether it is live, who one is, and
// one ribbon when something is wrong.
import { useEffect, useRef, useState } from 'preact/hooks';
import type { ComponentChildren } from 'preact';
import { may, session, signOut } from '../api.ts';
import { count, now } from '../clock.ts';
import { link, missed, paused, sessionChanged, standing } from '../feed.ts';
import { fleetTotals, overview } from '../overview.ts';
import { href, route } from '../route.ts';
import { use } from '../use.ts';
import { Icon } from './bits.tsx';
import { say } from './dialog.tsx';
import { showHelp } from './help.tsx';
import { nextTheme, theme } from './theme.ts';

const tabs: [string, string][] = [
  ['fleet', 'Fleet'],
  ['actions', 'Actions'],
  ['dead', 'Given up'],
  ['webhooks', 'Webhooks'],
  ['system', 'System'],
];

const parents: Record<string, string> = { machine: 'fleet', action: 'actions' };

function Lamp() {
  use(link, standing, missed, now);
  const l = link.value;
  const left = Math.ceil((l.retryAt - now.value) / 1000);
  const still = standing.value;
  const text = !l.live
    ? `reconnecting${l.retryAt && left > 0 ? ` in ${left} s` : ''}`
    : still && missed.value
      ? `${still}, ${count(missed.value)} changes wait`
      : still || 'live';
  return (
    <button type="button" class={`lamp ${!l.live ? 'bad' : still ? 'warn' : 'good'}`} onClick={() => (paused.value = !paused.value)} title="p pauses and resumes the live view">
      <Icon name={!l.live ? 'offline' : still ? 'paused' : 'online'} />
      <span role="status" id="link-state">
        {text}
      </span>
    </button>
  );
}

function Who() {
  const s = session.value;
  if (!s) return null;
  return (
    <>
      {!may('operate') && (
        <span class="badge" title="The server refuses acts of this token">
          read-only
        </span>
      )}
      {s.partly && (
        <span class="badge" title="This token sees only machines of its pattern">
          part of the fleet
        </span>
      )}
      {!s.open && (
        <button
          type="button"
          class="quiet"
          title={`signed in as ${s.name}`}
          onClick={() => void signOut().then(sessionChanged, (e: Error) => say(`Still signed in: ${e.message}`, true))}
        >
          Sign out
        </button>
      )}
    </>
  );
}

/** How many things are wrong; the title tells it to a tab in the background. */
function useTrouble() {
  use(overview, fleetTotals);
  const c = overview.value?.counts;
  const dead = c ? (c.failed ?? 0) + (c.gave_up ?? 0) + (c.expired ?? 0) : 0;
  return { dead, machines: fleetTotals.value?.troubled ?? 0, doubt: c?.in_doubt ?? 0 };
}

function icon(n: number): string {
  const badge = n ? `<circle cx="24" cy="8" r="8" fill="#d3382f"/><path d="M24 4v5M24 11.5v1" stroke="#fff" stroke-width="2.5" stroke-linecap="round"/>` : '';
  return `data:image/svg+xml,${encodeURIComponent(`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 32 32"><rect width="32" height="32" rx="7" fill="#0b6e63"/><path d="M8 10h9a5 5 0 0 1 0 10h-5m0 0 4-4m-4 4 4 4" fill="none" stroke="#fff" stroke-width="3" stroke-linecap="round" stroke-linejoin="round"/>${badge}</svg>`)}`;
}

function Ribbon() {
  const { dead, machines, doubt } = useTrouble();
  const [spoken, speak] = useState('');
  const before = useRef(-1);
  useEffect(() => {
    const link = document.querySelector<HTMLLinkElement>('link[rel=icon]');
    if (link) link.href = icon(dead + machines);
    // Only a change of the count is spoken, not each event.
    if (before.current >= 0 && before.current !== machines + dead) speak(`machines that need attention: ${machines}; given up: ${dead}`);
    before.current = machines + dead;
  }, [dead, machines]);
  const { page, id } = route.value;
  document.title = `${dead ? `(${count(dead)}) ` : ''}${id || (tabs.find((t) => t[0] === page)?.[1] ?? page)} · pushd`;
  const parts: ComponentChildren[] = [];
  if (machines) parts.push(<a key="m" href={href('fleet', undefined, { q: 'has:trouble' })}>{count(machines)} machine{machines > 1 ? 's need' : ' needs'} attention</a>);
  if (doubt) parts.push(<a key="i" href={href('actions', undefined, { q: 'state:in_doubt' })}>{count(doubt)} in doubt: say what became of {doubt > 1 ? 'them' : 'it'}</a>);
  if (dead) parts.push(<a key="d" href={href('dead')}>{count(dead)} given up</a>);
  return (
    <>
      <p class="offscreen" aria-live="polite">
        {spoken}
      </p>
      {parts.length > 0 && (
        <div class="ribbon">
          <Icon name="alert" />
          {parts.map((p, i) => [i > 0 && <span key={`s${i}`} aria-hidden="true"> · </span>, p])}
        </div>
      )}
    </>
  );
}

export function Shell({ children }: { children: ComponentChildren }) {
  const page = route.value.page;
  const here = parents[page] ?? page;
  use(theme);
  const { dead } = useTrouble();
  // A telephone shows not all of the tabs at once.
  useEffect(() => document.querySelector('nav [aria-current]')?.scrollIntoView({ block: 'nearest', inline: 'center' }), [here]);
  return (
    <>
      <a class="skip" href="#main">
        Skip to the page
      </a>
      <header>
        <div class="bar">
          <a class="brand" href={href('fleet')} aria-label="pushd: Fleet">
            <svg viewBox="0 0 32 32" aria-hidden="true">
              <rect width="32" height="32" rx="7" />
              <path d="M8 10h9a5 5 0 0 1 0 10h-5m0 0 4-4m-4 4 4 4" />
            </svg>
            pushd
          </a>
          <nav aria-label="Pages">
            {tabs.map(([name, label]) => (
              <a key={name} href={href(name)} aria-current={here === name ? 'page' : undefined}>
                {label}
                {name === 'dead' && dead > 0 && <span class="pill">{count(dead)}</span>}
              </a>
            ))}
          </nav>
          <div class="right">
            <Lamp />
            <Who />
            <button type="button" class="quiet" onClick={nextTheme} title="theme: system, dark, light (t)" aria-label={`Theme: ${theme.value}`}>
              {theme.value === 'dark' ? '☾' : theme.value === 'light' ? '☀' : '◐'}
            </button>
            <button type="button" class="quiet" onClick={showHelp} aria-label="Keys" title="keys (?)">
              ?
            </button>
          </div>
        </div>
        <Ribbon />
      </header>
      <main id="main" tabIndex={-1}>
        {children}
      </main>
    </>
  );
}
