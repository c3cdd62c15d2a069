//go:build !windows

package proc

// sameName compares names of variables.
func sameName(a, b string) bool { return a == b }

// Shim answers that nothing here is a shim.
func Shim(path string) (argv []string, message string) { return []string{path}, "" }
