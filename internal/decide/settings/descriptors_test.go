package settings

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
)

// levels is the example of SCR's documentation.
const levels = `SCR_COPY_TYPE=FILE
SCR_CACHE_BYPASS=0
SCR_CACHE_SIZE=2
GROUPS=host1 POWER=psu1 SWITCH=0
GROUPS=host2 POWER=psu1 SWITCH=1
STORE=/dev/shm GROUP=NODE COUNT=1
STORE=/ssd/ COUNT=3 FLUSH=PTHREAD
STORE=/p/lscratcha GROUP=WORLD
CKPT=0 INTERVAL=1 GROUP=NODE STORE=/dev/shm TYPE=XOR SET_SIZE=16
CKPT=1 INTERVAL=4 GROUP=NODE STORE=/ssd TYPE=partner SET_SIZE=8 OUTPUT=1
CKPT=2 INTERVAL=8 GROUP=SWITCH STORE=/ssd TYPE=SINGLE BYPASS=1
CKPT=10 INTERVAL=16 STORE=/p/lscratcha TYPE=XOR
`

func TestDescriptor(t *testing.T) {
	s, notes := Resolve(Sources{Dir: "/", User: levels, UserName: "u"})
	compare(t, notes, []string{"STORE=/ssd/ FLUSH=PTHREAD (u:7) has no effect: " + byAgents})
	plan := s.Plan()
	shm := "CKPT=0 INTERVAL=1 GROUP=NODE STORE=/dev/shm TYPE=XOR SET_SIZE=16 BYPASS=0 COUNT=1"
	ssd := "CKPT=1 INTERVAL=4 GROUP=NODE STORE=/ssd TYPE=PARTNER SET_SIZE=0 BYPASS=0 COUNT=3"
	for _, c := range []struct {
		n      uint64
		output bool
		want   string
	}{
		{1, false, shm}, {2, false, shm}, {7, false, shm}, {4, false, ssd}, {12, false, ssd}, {1, true, ssd}, {8, true, ssd}, {0, true, ssd}, {0, false, shm},
		{8, false, "CKPT=2 INTERVAL=8 GROUP=SWITCH STORE=/ssd TYPE=SINGLE SET_SIZE=0 BYPASS=1 COUNT=3"},
		{16, false, "CKPT=10 INTERVAL=16 GROUP=NODE STORE=/p/lscratcha TYPE=SINGLE SET_SIZE=0 BYPASS=1 COUNT=2"},
		{48, false, "CKPT=10 INTERVAL=16 GROUP=NODE STORE=/p/lscratcha TYPE=SINGLE SET_SIZE=0 BYPASS=1 COUNT=2"},
	} {
		if found := plan.Descriptor(c.n, c.output).String(); found != c.want {
			t.Errorf("checkpoint %d, output %v:\nfound  %s\nwanted %s", c.n, c.output, found, c.want)
		}
	}
	if found := plan.Descriptor(8, false).Groups; len(found) != 2 || found["host1"] != "0" || found["host2"] != "1" {
		t.Errorf("switches: %v", found)
	}
	if found := plan.Descriptor(1, false).Groups; len(found) > 0 {
		t.Errorf("nodes fail alone, found %v", found)
	}
	found, _ := json.Marshal(s.Descriptors())
	want := `{"Name":"CKPT=1","Value":"GROUP=NODE INTERVAL=4 OUTPUT=1 SET_SIZE=8 STORE=/ssd TYPE=partner","Origin":{"Source":1,"File":"u","Line":10},"NoEffect":""}`
	if !strings.Contains(string(found), want) {
		t.Errorf("found %s, wanted %s", found, want)
	}
}

// TestImplied: without lines, parameters say how all is kept.
func TestImplied(t *testing.T) {
	for in, want := range map[string]string{
		"":                                  "CKPT=0 INTERVAL=1 GROUP=NODE STORE=/dev/shm TYPE=XOR SET_SIZE=0 BYPASS=1 COUNT=1",
		"SCR_SET_SIZE=4 SCR_CACHE_BYPASS=0": "CKPT=0 INTERVAL=1 GROUP=NODE STORE=/dev/shm TYPE=XOR SET_SIZE=4 BYPASS=0 COUNT=1",
		"SCR_COPY_TYPE=single SCR_CACHE_BASE=/ssd/ SCR_CACHE_SIZE=3": "CKPT=0 INTERVAL=1 GROUP=NODE STORE=/ssd TYPE=SINGLE SET_SIZE=0 BYPASS=1 COUNT=3",
		"SCR_COPY_TYPE=PARTNER SCR_SET_SIZE=4 SCR_CACHE_BASE=/y":     "CKPT=0 INTERVAL=1 GROUP=NODE STORE=/y TYPE=PARTNER SET_SIZE=0 BYPASS=1 COUNT=7",
	} {
		s, notes := Resolve(Sources{Dir: "/", Environ: strings.Fields(in), System: "STORE=/y COUNT=7\nSCR_GROUP=NODE\n"})
		plan := s.Plan()
		notes = slices.DeleteFunc(notes, func(n Note) bool { return n.Name == "SCR_CACHE_BASE" })
		if found := plan.Descriptor(3, true).String(); found != want || len(notes) > 0 {
			t.Errorf("%s: found %s, %v, wanted %s", in, found, notes, want)
		}
	}
}

// TestLines: all lines of a kind come from one source; what SCR_Config says is added to those that hold.
func TestLines(t *testing.T) {
	src := Sources{Dir: "/", System: "STORE=/a COUNT=1\nSTORE=/b COUNT=2\n", SystemName: "s"}
	for _, c := range []struct {
		user string
		app  []string
		want string
	}{
		{"", nil, "[STORE=/a COUNT=1 s:1] [STORE=/b COUNT=2 s:2]"},
		{"", []string{"STORE=/a COUNT=5", "STORE=/c GROUP=WORLD"}, "[STORE=/a COUNT=5 SCR_Config] [STORE=/b COUNT=2 s:2] [STORE=/c GROUP=WORLD SCR_Config]"},
		{"", []string{"STORE=/a GROUP=NODE", "STORE=/a COUNT="}, "[STORE=/a GROUP=NODE SCR_Config] [STORE=/b COUNT=2 s:2]"},
		{"", []string{"STORE=/c COUNT=1", "STORE=/d"}, "[STORE=/d  SCR_Config]"},
		{"", []string{"STORE=/c COUNT=1", "STORE="}, "[STORE=/a COUNT=1 s:1] [STORE=/b COUNT=2 s:2]"},
		{"STORE=/u COUNT=3\nstore=/u group=NODE", []string{"STORE=/c COUNT=1"}, "[STORE=/u COUNT=3 GROUP=NODE u:2]"},
	} {
		src.User, src.UserName, src.App = c.user, "u", c.app
		s, _ := Resolve(src)
		var found []string
		for _, d := range s.Descriptors() {
			found = append(found, fmt.Sprintf("[%s %s %v]", d.Name, d.Value, d.Origin))
		}
		if text := strings.Join(found, " "); text != c.want {
			t.Errorf("%q, %q: found %s, wanted %s", c.user, c.app, text, c.want)
		}
	}
}

func TestDescriptorNotes(t *testing.T) {
	const file = "SCR_COPY_TYPE=FILE\n"
	for in, want := range map[string][]string{
		"CKPT=0 TYPE=XOR":          {"CKPT=0 (u:1) has no effect: SCR_COPY_TYPE=FILE would have lines CKPT used, found XOR"},
		"SCR_GROUP=RACK":           {"SCR_GROUP=RACK (u:1): wanted NODE or a name of lines GROUPS; NODE is used instead"},
		"SCR_GROUP=WORLD":          {"SCR_GROUP=WORLD (u:1): wanted NODE or a name of lines GROUPS; NODE is used instead"},
		"STORE=ssd":                {"STORE=ssd (u:1): wanted an absolute path: the line is not used"},
		"STORE=/x COUNT=no CUONT=": {`u:1: "CUONT" has no value: the line is not used`},
		"STORE=/x COUNT=no CUONT=1": {"STORE=/x CUONT=1 (u:1): CUONT is not known: did you mean COUNT?",
			"STORE=/x COUNT=no (u:1): wanted a whole number of at least 0; 1 is used instead"},
		"STORE=/x GROUP=g":           {"STORE=/x GROUP=g (u:1): wanted NODE, WORLD or a name of lines GROUPS; NODE is used instead"},
		"CNTLDIR=/dev/shm BYTES=1GB": {"CNTLDIR=/dev/shm (u:1) has no effect: SCR 3.1 reads no sizes of directories, and Byssus asks the file system"},
		file:                         {"SCR_COPY_TYPE=FILE (u:1): found no line CKPT, which say how checkpoints are kept"},
		file + "CKPT=x TYPE=XOR":     {"CKPT=x (u:2): wanted a number from 0: the line is not used", "no line CKPT has INTERVAL=1: what no other interval divides is kept in /dev/shm with XOR"},
		file + "CKPT=0 INTERNAL=1":   {"CKPT=0 INTERNAL=1 (u:2): INTERNAL is not known: did you mean INTERVAL?", "CKPT=0 (u:2) has no TYPE: wanted SINGLE, PARTNER or XOR; XOR is used instead"},
		file + "CKPT=0 TYPE=RS":      {"CKPT=0 TYPE=RS (u:2): " + notRS},
		file + "CKPT=0 TYPE=FILE":    {"CKPT=0 TYPE=FILE (u:2): wanted SINGLE, PARTNER or XOR; XOR is used instead"},
		file + "CKPT=0 TYPE=XOR G=1": {"CKPT=0 G=1 (u:2): G is not known"},
		file + "CKPT=0\nSTORE=/x":    {"CKPT=0 (u:2) has no TYPE: wanted SINGLE, PARTNER or XOR; XOR is used instead"},
		file + "CKPT=0 TYPE=XOR\nCKPT=1 TYPE=XOR INTERVAL=0 GROUP=WORLD SET_SIZE=1\n": {"CKPT=1 INTERVAL=0 (u:3): wanted a whole number of at least 1; 1 is used instead",
			"CKPT=1 SET_SIZE=1 (u:3): wanted a whole number of at least 2; 0 is used instead", "CKPT=1 GROUP=WORLD (u:3): wanted NODE or a name of lines GROUPS; NODE is used instead"},
		file + "CKPT=0 TYPE=XOR\nSTORE=/x ENABLED=0\nCKPT=1 TYPE=XOR INTERVAL=2 STORE=/x": {
			"CKPT=1 STORE=/x (u:4): no line STORE=/x that is enabled, and SCR_CACHE_BASE is /dev/shm: the line is not used"},
		file + "CKPT=0 TYPE=XOR\nCKPT=1 TYPE=WHAT ENABLED=0": nil,
	} {
		s, notes := Resolve(Sources{Dir: "/", User: in, UserName: "u"})
		compare(t, notes, want)
		if plan := s.Plan(); plan.Descriptor(5, true).Scheme == 0 {
			t.Errorf("%q: no scheme", in)
		}
	}
}

// TestLarge: a large file takes no long time.
func TestLarge(t *testing.T) {
	var b strings.Builder
	for i := range 5000 {
		fmt.Fprintf(&b, "GROUPS=h%d R=%d\nSTORE=/%d GROUP=R\nX%d=1\n", i, i, i, i)
	}
	s, notes := Resolve(Sources{Dir: "/", User: b.String(), UserName: "u"})
	if plan := s.Plan(); len(plan.Stores) != mostLines+1 || len(plan.Groups) != 5000 || notes[0].Text != "X0 (u:3) is no parameter of SCR" {
		t.Errorf("%d stores, %v", len(plan.Stores), notes[0])
	}
}

// FuzzResolve: no text makes it fail, and everything is answered.
func FuzzResolve(f *testing.F) {
	f.Add("SCR_FLUSH=$X", levels, "STORE=/x COUNT", "CKPT=0 INTERVAL=0\n\\=${")
	f.Add("SCR_PREFIX=..", "=\n==\n# \na=", "", "STORE=/x ENABLED=-1\nGROUPS=h NODE=1")
	f.Fuzz(func(t *testing.T, env, user, app, system string) {
		src := Sources{Dir: "/d", Environ: strings.Split(env, "\n"), User: user, App: strings.Split(app, "\n"), System: system, Run: strings.Split(app, ",")}
		s, notes := Resolve(src)
		UserPath(src)
		SystemPath(src)
		s.Query(app)
		s.Get(env)
		plan := s.Plan()
		for n := range uint64(20) {
			for _, output := range []bool{true, false} {
				p := plan.Descriptor(n, output)
				if p.Scheme == 0 || p.Interval < 1 || p.Store == "" || p.Group == "" || p.SetSize == 1 || p.Count < 0 {
					t.Errorf("checkpoint %d: found %v", n, p)
				}
			}
		}
		if plan.Prefix == "" || plan.Prefix[0] != '/' || plan.CacheSize < 0 || plan.Flush < 0 {
			t.Errorf("found %+v", plan)
		}
		if len(notes) > 3*mostNotes {
			t.Errorf("%d notes", len(notes))
		}
	})
}
