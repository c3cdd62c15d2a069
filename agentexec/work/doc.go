// Package work does what actions ask: it runs programs, scripts and CLI agents,
// and calls endpoints, each under the eyes of windows that tell silence from
// death (webhooks-exec B and C). It promises a verdict for every job, whatever
// the program does: a result within its bounds, what the exit means in the words
// of policy, and which window cut what was cut.
//
// It leaves the process tree to package proc, the bytes to package output, and
// what a verdict leads to to the server.
package work
