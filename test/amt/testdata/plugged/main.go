// Command plugged opens a plugin that declares a handler.
package main

import (
	"fmt"
	"os"
	"plugin"

	"github.com/byssus-hpc/byssus/amt"
)

func main() {
	if _, err := plugin.Open(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	amt.Main(func(amt.Context) error { return nil })
}
