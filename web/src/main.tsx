// The dashboard: is the fleet well, which machine, why, and what do I do?
import { render } from 'preact';
import { useEffect } from 'preact/hooks';
import { Failure, session, whoAmI } from './api.ts';
import { startFeed } from './feed.ts';
import { startOverview } from './overview.ts';
import { Dialog, Said } from './parts/dialog.tsx';
import { Empty } from './parts/bits.tsx';
import { Help } from './parts/help.tsx';
import { startKeys } from './parts/keys.ts';
import { Shell } from './parts/shell.tsx';
import { ActionPage } from './pages/action.tsx';
import { ActionsPage } from './pages/actions.tsx';
import { DeadPage } from './pages/dead.tsx';
import { FleetPage } from './pages/fleet.tsx';
import { MachinePage } from './pages/machine.tsx';
import { SignIn } from './pages/signin.tsx';
import { SystemPage } from './pages/system.tsx';
import { WebhooksPage } from './pages/webhooks.tsx';
import { use } from './use.ts';
import { href, route } from './route.ts';

const pages: Record<string, () => preact.JSX.Element> = {
  fleet: FleetPage, machine: MachinePage, actions: ActionsPage, action: ActionPage, dead: DeadPage, webhooks: WebhooksPage, system: SystemPage,
};

function Nowhere() {
  return (
    <>
      <h1>No such page</h1>
      <Empty title="This address leads nowhere.">
        <p>
          <a href={href('fleet')}>To the fleet</a>
        </p>
      </Empty>
    </>
  );
}

function App() {
  use(session, route);
  const s = session.value;
  const { page, id } = route.value;
  useEffect(() => document.documentElement.setAttribute('data-page', page), [page]);
  if (!s) return <p class="boot" role="status">Asking the server…</p>;
  if (!s.signed_in) return <><SignIn /><Said /></>;
  if (!s.can.includes('read')) {
    return (
      <Shell>
        <h1>pushd</h1>
        <Empty title="This token may not read; the dashboard needs scope read." />
      </Shell>
    );
  }
  const Page = pages[page] ?? Nowhere;
  return (
    <>
      <Shell>
        <Page key={`${page} ${id}`} />
      </Shell>
      <Dialog />
      <Help />
      <Said />
    </>
  );
}

/** Asks who we are until the server answers. */
async function begin() {
  for (let wait = 500; ; wait = Math.min(wait * 2, 8000)) {
    try {
      return await whoAmI();
    } catch (e) {
      if (!(e instanceof Failure)) throw e;
      await new Promise((done) => setTimeout(done, wait));
    }
  }
}

startKeys();
startFeed();
startOverview();
render(<App />, document.getElementById('app')!);
void begin();
