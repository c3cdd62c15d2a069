// Package output takes what a child process prints: any bytes, in any encoding,
// without end. It promises that memory is bounded, that a reader never stops,
// that what is kept is valid UTF-8 and holds none of the secrets it was told, and
// that lines come whole, or cut and said to be so.
package output
