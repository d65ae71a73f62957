package coordsrv

import (
	"slices"
	"testing"

	"github.com/byssus-hpc/byssus/internal/act/control"
)

// TestFit: which hosts are used, and when the job does not start.
func TestFit(t *testing.T) {
	here := func(processor ...string) candidate {
		return candidate{came: true, traits: control.Traits{Processor: processor,
			Programs: []control.Program{{Path: "/lib/byssus-rank", Content: "build id 01"}, {Path: "/app", Content: "sha256 02"}}}}
	}
	other := here("sse", "avx2")
	other.traits.Programs = []control.Program{other.traits.Programs[0], {Path: "/opt/app", Content: "sha256 03"}}
	good := here("sse", "avx2")
	const another = "/opt/app is another program than on n0: found sha256 03, wanted sha256 02"
	for name, k := range map[string]struct {
		nodes, spares []candidate
		reasons       []string
		err           string
	}{
		"all are alike":              {[]candidate{good, good}, []candidate{good}, []string{"", "", ""}, ""},
		"more features than needed":  {[]candidate{here("sse"), good}, []candidate{good}, []string{"", "", ""}, ""},
		"no spare was asked for":     {[]candidate{good}, nil, []string{""}, ""},
		"a spare lacks a feature":    {[]candidate{good}, []candidate{here("sse"), good}, []string{"", "its processor lacks avx2, which n0 has", ""}, ""},
		"a spare lacks two":          {[]candidate{good}, []candidate{here()}, []string{"", "its processor lacks sse, avx2, which n0 has"}, ""},
		"a spare has another binary": {[]candidate{good}, []candidate{other}, []string{"", another}, ""},
		"a spare has not come":       {[]candidate{good}, []candidate{{why: "dead"}}, []string{"", "dead"}, ""},
		"a spare came and went":      {[]candidate{good}, []candidate{{came: true, why: "dead", traits: good.traits}}, []string{"", "dead"}, ""},
		"nothing runs on a spare":    {[]candidate{good}, []candidate{{came: true, traits: control.Traits{Wrong: "no program"}}}, []string{"", "no program"}, ""},
		"a node lacks a feature": {[]candidate{good, here("avx2")}, []candidate{good}, []string{"", "its processor lacks sse, which n0 has", ""},
			"coordsrv: node n1: its processor lacks sse, which n0 has; 1 of 2 nodes and 1 of 1 spares can be used"},
		"a node has another binary and lacks a feature": {[]candidate{here("sse", "avx2", "fma"), other}, nil,
			[]string{"", "its processor lacks fma, which n0 has; " + another},
			"coordsrv: node n1: its processor lacks fma, which n0 has; " + another + "; 1 of 2 nodes and 0 of 0 spares can be used"},
		"the first has not come": {[]candidate{{why: "dead"}, good}, []candidate{good}, []string{"dead", "", ""},
			"coordsrv: node n0: dead; 1 of 2 nodes and 1 of 1 spares can be used"},
		"all are late": {[]candidate{{}}, nil, []string{notYet}, "coordsrv: node n0: its agent has not come yet; 0 of 1 nodes and 0 of 0 spares can be used"},
		"a node has not come, others are late": {[]candidate{{}, {why: "dead"}, {why: "dead, too"}}, []candidate{{}}, []string{notYet, "dead", "dead, too", notYet},
			"coordsrv: node n1: dead; node n2: dead, too; 0 of 3 nodes and 0 of 1 spares can be used"},
	} {
		list := append(slices.Clone(k.nodes), k.spares...)
		for i := range list {
			list[i].name, list[i].spare = "n"+string(rune('0'+i)), i >= len(k.nodes)
		}
		reasons, err := fit(list)
		text := ""
		if err != nil {
			text = err.Error()
		}
		if !slices.Equal(reasons, k.reasons) || text != k.err {
			t.Errorf("%s: found %q, %q, wanted %q, %q", name, reasons, text, k.reasons, k.err)
		}
	}
}
