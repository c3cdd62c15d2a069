//go:build !windows && (amd64 || arm64 || ppc64le || riscv64 || s390x)

package boltstore

// initialMmap is address space, not memory: a file below it is never mapped
// anew, which would make the committer wait for every reader.
const initialMmap = 8 << 30
