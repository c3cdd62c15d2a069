// Package setup turns an agent's settings file into a running agent. It promises
// that what a file says is either followed or refused with one line: no key, and
// no value of a key, is ever ignored. Paths in a file are meant from its folder.
package setup
