// Package task holds the words that the parts of the agent share: an action as it
// arrives, the verdict on it, why work is stopped, and the pulse by which work
// that goes on is told from work that hangs. It does nothing by itself.
package task
