//go:build !(amd64 || arm64 || loong64 || mips64le || ppc64le || riscv64)

package pup

// native says that numbers lie in this machine's memory as they do in the data: little-endian, int of 8 bytes.
const native = false
