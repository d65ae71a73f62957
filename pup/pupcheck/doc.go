package pupcheck

import _ "embed"

// doc is what pupvet --help prints.
//
//go:embed doc.txt
var doc string
