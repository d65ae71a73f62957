// Command plugin is a plugin that declares a handler.
package main

import "github.com/byssus-hpc/byssus/amt"

type message struct{ X int64 }

var handler amt.Handler[message]

func init() { handler.Is(func(amt.Context, *message) {}) }

func main() {}
