// Package proc runs a program with all its descendants as one thing: what it
// starts, wherever that goes, ends with it. On Linux a supervisor (this program,
// executed again) adopts orphans and finds runaways by a mark in their
// environment; on Windows a job object holds the tree.
//
// It promises that when Wait returns nothing of the tree is alive, or says how
// many would not die, and that the tree ends with the agent, even killed. It
// leaves to others when to stop and what the output means.
package proc
