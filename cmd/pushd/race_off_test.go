//go:build !race

package main_test

// raceEnabled: the binary under test is built as the tests are.
const raceEnabled = false
