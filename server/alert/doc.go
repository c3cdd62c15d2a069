// Package alert tells people what an orchestrator cannot mend by itself: actions
// that were given up, failed or are in doubt, sessions that wait for help,
// breakers, machines that are away, a store that cannot write.
//
// It promises that telling never slows what is told of: it hears of changes
// through a queue that drops rather than waits, and each receiver has a goroutine
// of its own. What happens together is told together, no receiver hears more often
// than its interval, and what passes before it was told is not told at all. A
// message is in the store's outbox until its receiver took it, and at the end what
// was only heard goes there too.
//
// Which alerts are open is in memory: after a start what still stands (machines,
// pauses, breakers, the store) is told again, and a kill loses what was heard within
// gather, or every, and not yet told.
package alert
