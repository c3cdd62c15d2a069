package web_test

import (
	"fmt"
	"testing"

	"github.com/chromedp/chromedp/kb"
	"github.com/stretchr/testify/require"

	"pushd/server/api"
)

// row is an expression for a table row with a text in its heading cell.
func row(id string) string {
	return fmt.Sprintf(`[...document.querySelectorAll('tbody tr')].find(r => r.querySelector('th')?.textContent === %q)`, id)
}

// shows waits until a row says something.
func (b *tab) shows(id, text string) {
	b.t.Helper()
	b.wait(fmt.Sprintf(`%s.innerText.includes(%q)`, row(id), text))
}

// stays marks the document; a reload would forget the mark.
func (b *tab) stays() func() {
	js[bool](b, `window.mark = true`)
	return func() { require.True(b.t, js[bool](b, `window.mark === true`), "the page was loaded again") }
}

func TestAMachineAppearsAndAnActionsWholeWayShowsWithoutReload(t *testing.T) {
	s := serve(t, "watchdog.orphan_timeout=1s")
	b := visitor(t, s)
	b.open("/")
	b.live()
	b.see("No machine has subscribed yet.")
	b.see("curl -N '" + s.base + "/events?machine_id=my-machine'")
	same := b.stays()
	agent := s.subscribe(t, "win-1", 2)
	b.shows("win-1", "online")
	same()
	b.open("/ui/actions")
	b.live()
	b.see("No action has been pushed yet.")
	same = b.stays()
	s.push(t, "a1", "win-1")
	b.shows("a1", "in flight")
	require.Equal(t, 1, agent.await(t).Delivery)
	require.Equal(t, 2, agent.await(t).Delivery) // nobody acked the first
	b.shows("a1", "1/2")
	js[bool](b, row("a1")+`.querySelector('th a').click() ?? true`)
	b.see("Sent")
	for _, step := range []string{"pushed", "sent", "taken for lost", "sent again"} {
		b.see(step)
	}
	s.ack(t, "a1", "received")
	b.see("In work for")
	s.ack(t, "a1", "done")
	b.see("Done, ")
	b.see("on delivery 2")
	same()
	b.clean()
}

func TestWhatWasGivenUpIsRedrivenFromThePage(t *testing.T) {
	s := serve(t, "watchdog.orphan_timeout=500ms", "watchdog.max_resends=0")
	agent := s.subscribe(t, "win-1", 1)
	b := visitor(t, s)
	b.open("/ui/dead")
	b.live()
	b.see("Nothing was given up.")
	s.push(t, "a1", "win-1", func(p *api.Push) { p.OnDead = "skip" })
	agent.await(t)
	b.see("Never answered")
	b.click("a1")
	b.see("Nobody knows whether it was done.")
	b.click("Redrive…")
	b.see("may be done twice")
	b.click("Redrive the action")
	b.see("a1 is queued again") // the server's word, or
	require.Equal(t, 2, agent.await(t).Delivery)
	s.ack(t, "a1", "done")
	b.see("Done, ")
	b.see("redriven")
	b.clean()
}

func TestEachActGoesThroughThePage(t *testing.T) {
	s := serve(t, "watchdog.orphan_timeout=300s", "policy.breaker_threshold=1")
	agent := s.subscribe(t, "win-1", 1)
	b := visitor(t, s)
	b.open("/ui/machine/win-1")
	b.live()
	b.click("Pause")
	js[bool](b, `(() => { const i = document.querySelector('dialog input[name=note]'); i.value = 'disk swap'; i.dispatchEvent(new Event('input', {bubbles: true})); return true })()`)
	b.click("Pause the machine")
	b.see("Paused by an operator")
	b.see("disk swap")
	b.click("Push a test action")
	js[bool](b, `(() => { const i = document.querySelector('dialog textarea'); i.value = '{"big": 12345678901234567890}'; i.dispatchEvent(new Event('input', {bubbles: true})); return true })()`)
	b.click("Push the action")
	b.see("is queued")
	b.click("Resume")
	b.click("Resume the machine")
	first := agent.await(t)
	b.see("in flight")
	b.click("Credit…")
	js[bool](b, `(() => { const i = document.querySelector('dialog input[name=reason]'); i.value = 'one slot is broken'; i.dispatchEvent(new Event('input', {bubbles: true})); return true })()`)
	b.click("Set the limit to 1")
	b.see("may have 1 in flight")
	b.see("1 of 1 in flight: one slot is broken")
	b.open("/ui/action/" + first.ActionID)
	b.see("12345678901234567890") // no digit is lost
	b.click("Cancel…")
	b.click("Cancel the action")
	b.see("asked to stop")
	s.ack(t, first.ActionID, "cancelled")
	b.see("its agent confirmed that it stopped")
	s.push(t, "once", "win-1", func(p *api.Push) { p.Guarantee, p.Target = "at_most_once", "claude" })
	agent.await(t)
	s.ack(t, "once", "failed", func(a *api.Ack) { a.Error = &api.Failure{Kind: "transient", Message: "429"} })
	b.open("/ui/system")
	b.see("breaker open")
	b.click("Close the breaker")
	b.see("What waits behind it is sent at once.")
	js[bool](b, `document.querySelector('dialog button[type=submit]').click() ?? true`)
	b.see("The breaker of claude is closed.")
	b.wait(`!document.body.innerText.includes('breaker open')`)
	b.clean()
}

func TestAnActInDoubtIsResolved(t *testing.T) {
	s := serve(t, "watchdog.orphan_timeout=500ms")
	agent := s.subscribe(t, "win-1", 1)
	s.push(t, "once", "win-1", func(p *api.Push) { p.Guarantee = "at_most_once" })
	agent.await(t)
	b := visitor(t, s)
	b.open("/ui/action/once")
	b.see("at_most_once forbids sending it again")
	b.click("Resolve…")
	b.click("Resolve as done")
	b.see("once is done by your word.")
	s.settled(t, "once", "done")
	b.clean()
}

func TestActsOnManyAreCountedByTheServerAndToldByIt(t *testing.T) {
	s := serve(t)
	for i := range 250 {
		s.push(t, fmt.Sprintf("a%03d", i), "win-1", func(p *api.Push) { p.SessionID = fmt.Sprint("s", i) })
	}
	b := visitor(t, s)
	b.open("/ui/actions?q=machine:win-1+state:queued")
	b.live()
	b.shows("a249", "queued")
	b.key("jjxjx")
	b.see("2 selected")
	b.see("paused: 2 selected") // the view stands still under a selection
	b.click("Cancel 2")
	b.click("Cancel 2 actions")
	b.see("Cancelled or asked to stop: 2 of 2.")
	b.click("Count, then cancel…")
	b.click("Cancel 248 actions")
	b.see("248 cancelled or asked to stop.")
	b.see("No action matches this search.")
	q, err := s.client().Queue(t.Context())
	require.NoError(t, err)
	require.Equal(t, 250, q.Counts["cancelled"])
	b.clean()
}

func TestASessionIsPausedAndCancelledAsAWhole(t *testing.T) {
	s := serve(t)
	for i := range 3 {
		s.push(t, fmt.Sprint("a", i), "win-1", func(p *api.Push) { p.SessionID = "s1" })
	}
	b := visitor(t, s)
	b.open("/ui/actions?q=session:s1")
	b.live()
	b.click("Pause the session")
	js[bool](b, `document.querySelector('dialog button[type=submit]').click() ?? true`)
	b.see("session s1 is paused.")
	b.click("Resume the session")
	js[bool](b, `document.querySelector('dialog button[type=submit]').click() ?? true`)
	b.see("session s1 goes on.")
	b.click("Cancel the session…")
	b.click("Cancel and close the session")
	b.see("3 of its actions are cancelled.")
	b.clean()
}

func TestTheOldestDeliveryWithoutAnAckIsToldOverARestart(t *testing.T) {
	s := serve(t, "watchdog.orphan_timeout=10m", "stream.disconnect_grace=5m", "stream.reconnect_grace=5m")
	b := visitor(t, s)
	b.open("/")
	b.live()
	tile := `[...document.querySelectorAll('.tile')].find(e => e.innerText.includes('Oldest unacked'))`
	b.wait(tile + `.innerText.includes('0 sent and not acked')`)
	agent := s.subscribe(t, "win-1", 2)
	s.push(t, "slow", "win-1")
	agent.await(t)
	s.push(t, "next", "win-1")
	agent.await(t)
	b.wait(tile + `.innerText.includes('2 sent and not acked')`)
	require.Equal(t, "/ui/action/slow", js[string](b, tile+`.pathname`))
	s.kill()
	s.restart(t)
	b.live()
	b.wait(tile + `.pathname === '/ui/action/slow' && ` + tile + `.innerText.includes('2 sent and not acked')`)
	s.ack(t, "slow", "received")
	b.wait(tile + `.pathname === '/ui/action/next' && ` + tile + `.innerText.includes('1 sent and not acked')`)
	b.clean()
}

// An operator who comes to a dead machine is told why its queue stands, and what to do.
func TestADeadMachineSaysWhyAndWhatToDo(t *testing.T) {
	s := serve(t)
	agent := s.subscribe(t, "win-1", 1)
	b := visitor(t, s)
	b.open("/ui/machine/win-1")
	b.live()
	b.see("Nothing waits.")
	agent.stop()
	s.push(t, "a1", "win-1")
	b.see("which has no stream open")
	b.see("pushd agent --server " + s.base + " --machine win-1 --config agent.yaml")
	again := s.subscribe(t, "win-1", 1)
	again.await(t)
	b.wait(`!document.body.innerText.includes('pushd agent --server')`)
	b.clean()
}

// Whoever uses no mouse gets everywhere, and a question keeps the keys to itself.
func TestThePagesAreWalkedByKeys(t *testing.T) {
	s := serve(t)
	for _, id := range []string{"a1", "a2"} {
		s.push(t, id, "win-1")
	}
	b := visitor(t, s)
	b.open("/")
	b.live()
	b.wait(`document.title === 'Fleet · pushd'`)
	b.key("ga")
	b.shows("a2", "queued")
	b.wait(`document.title === 'Actions · pushd' && document.activeElement.id === 'main'`)
	b.key("j")
	b.wait(`document.activeElement.textContent === 'a2'`)
	b.key("j")
	b.wait(`document.activeElement.textContent === 'a1'`)
	b.key("c")
	b.see("Cancel a1?")
	b.wait(`document.activeElement.textContent === 'Leave it'`) // a hasty Enter does nothing
	b.key("gf")                                                 // asks nothing of the page below
	require.Equal(t, "/ui/actions", js[string](b, `location.pathname`))
	b.key(kb.Escape)
	b.wait(`!document.querySelector('dialog')`)
	b.wait(`document.activeElement.textContent === 'a1'`) // where it was
	b.key(kb.Enter)
	b.wait(`document.title === 'a1 · pushd'`)
	b.see("its machine is offline")
	b.key("c")
	b.click("Cancel the action")
	b.see("a1 is cancelled.")
	b.key("?")
	b.see("previous row")
	b.key("gf")
	require.Equal(t, "/ui/action/a1", js[string](b, `location.pathname`))
	b.key(kb.Escape)
	b.wait(`!document.querySelector('dialog')`)
	b.key("gs")
	b.wait(`document.title === 'System · pushd'`)
	b.clean()
}
