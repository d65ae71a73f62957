package resman

import (
	"strings"
	"testing"
)

func TestExpand(t *testing.T) {
	for list, want := range map[string]string{
		"":                         "",
		"a":                        "a",
		"a,b a":                    "a b",
		"node[1-3,07-09],login":    "node1 node2 node3 node07 node08 node09 login",
		"r[1-2]n[5,6].site":        "r1n5.site r1n6.site r2n5.site r2n6.site",
		"node[8-11]":               "node8 node9 node10 node11",
		"a[1":                      "error",
		"a]":                       "error",
		"a[x]":                     "error",
		"a[3-1]":                   "error",
		"a[0-999999999]":           "error",
		"a[0-1000]b[0-1000]c[0-9]": "error",
	} {
		got, err := Expand(list)
		if found := strings.Join(got, " "); (err != nil) != (want == "error") || err == nil && found != want {
			t.Errorf("%q: found %q, %v, wanted %q", list, found, err, want)
		}
	}
}
