//go:build windows || !(amd64 || arm64 || ppc64le || riscv64 || s390x)

package boltstore

// initialMmap is left to bbolt where mapping would make the file as large.
const initialMmap = 0
