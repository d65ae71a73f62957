package amtcheck

import _ "embed"

// doc is what amtvet --help prints.
//
//go:embed doc.txt
var doc string
