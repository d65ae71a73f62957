// Command switch is a library (c-shared) that bench/c/switch.c enters and leaves, with the task runtime attached. It needs cgo.
package main

func main() {}
