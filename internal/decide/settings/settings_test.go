package settings

import (
	"fmt"
	"strings"
	"testing"
)

// all is Sources with something of one parameter everywhere.
func all(name string, values [5]string) Sources {
	src := Sources{Dir: "/job", UserName: "/job/.scrconf", SystemName: "/etc/scr.conf"}
	line := func(i int) []string {
		if values[i] == "" {
			return nil
		}
		return []string{name + "=" + values[i]}
	}
	src.Environ, src.App, src.Run = line(0), line(2), line(4)
	src.User, src.System = strings.Join(line(1), ""), strings.Join(line(3), "")
	return src
}

func TestPrecedence(t *testing.T) {
	origins := []string{"environment", "/job/.scrconf:1", "SCR_Config", "/etc/scr.conf:1", "byssus run", "built-in"}
	for first := range 6 {
		var values [5]string
		for i := first; i < 5; i++ {
			values[i] = fmt.Sprint(20 + i)
		}
		s, notes := Resolve(all("SCR_FLUSH", values))
		found, _ := s.Get("SCR_FLUSH")
		want := fmt.Sprint(20 + first)
		if first == 5 {
			want = "10"
		}
		if found.Value != want || found.Origin.String() != origins[first] || len(notes) > 0 {
			t.Errorf("from %s: found %s (%v) with %v, wanted %s", origins[first], found.Value, found.Origin, notes, want)
		}
		if first < 5 {
			values[first] = "often"
			s, notes = Resolve(all("SCR_FLUSH", values))
			below := fmt.Sprint(21 + first)
			if first == 4 {
				below = "10"
			}
			text := fmt.Sprintf("SCR_FLUSH=often (%s): wanted a whole number of at least 0; %s is used instead (%s)", origins[first], below, origins[first+1])
			if len(notes) != 1 || notes[0] != (Note{Wrong, "SCR_FLUSH", text}) || s.Plan().Flush == 0 {
				t.Errorf("found %v, wanted %q", notes, text)
			}
		}
	}
}

// TestConfig follows what SCR's own test of SCR_Config (examples/test_config.c) looks at, in its order.
func TestConfig(t *testing.T) {
	var app []string
	for i, step := range []struct{ set, ask, want string }{
		{ask: "DEBUG", want: "none"},
		{set: "DEBUG=1", ask: "DEBUG", want: "1"},
		{set: "DEBUG =1", ask: "DEBUG", want: "1"},
		{set: "DEBUG= 1", ask: "DEBUG", want: "1"},
		{set: "DEBUG  = 1", ask: "DEBUG", want: "1"},
		{set: "STORE=", ask: "STORE", want: "none"},
		{set: "SCR_COPY_TYPE =SINGLE", ask: "SCR_COPY_TYPE", want: "SINGLE"},
		{set: "STORE= /dev/shm/foo GROUP = NODE COUNT  =1", ask: "STORE= /dev/shm/foo COUNT", want: "1"},
		{set: "CKPT=0 INTERNAL=1 GROUP=NODE STORE=/dev/shm TYPE=XOR SET_SIZE=16", ask: "CKPT=0 SET_SIZE", want: "16"},
		{ask: "DEBUG", want: "1"},
		{ask: "STORE", want: "/dev/shm/foo"},
		{ask: "STORE=/dev/shm/foo GROUP", want: "NODE"},
		{ask: "FOOBAR", want: "none"},
		{ask: "CKPT=1 FOOBAR", want: "none"},
		{set: "DEBUG=0", ask: "DEBUG", want: "0"},
		{set: "STORE=/dev/shm GROUP=NODE COUNT=1", ask: "STORE=/dev/shm COUNT", want: "1"},
		{ask: "STORE=/dev/shm GROUP", want: "NODE"},
		{ask: "STORE", want: "none"}, // it has two values
		{set: "STORE=", ask: "STORE", want: "none"},
		{ask: "", want: "none"},
		{ask: " ", want: "none"},
		{ask: "KEY VALUE", want: "none"},
		{ask: "CKPT=0 TYPE=XOR STORE", want: "none"},
		{set: "SCR_CACHE_BASE=/dev/shm/boring_name", ask: "SCR_CACHE_BASE", want: "/dev/shm/boring_name"},
		{set: "SCR_CACHE_BASE==/dev/shm/name_contains_preceding_=", ask: "SCR_CACHE_BASE", want: "=/dev/shm/name_contains_preceding_="},
		{set: "SCR_CACHE_BASE= =/dev/shm/==name_contains_=_signs_everywhere", ask: "SCR_CACHE_BASE", want: "=/dev/shm/==name_contains_=_signs_everywhere"},
	} {
		if step.set != "" {
			app = append(app, step.set)
		}
		s, _ := Resolve(Sources{Dir: "/", Environ: []string{"SCR_DB_NAME=dbname2"}, App: app})
		found, ok := s.Query(step.ask)
		if !ok {
			found = "none"
		}
		if found != step.want {
			t.Errorf("step %d: %q after %q: found %q, wanted %q", i, step.ask, step.set, found, step.want)
		}
		if found, _ := s.Query("SCR_DB_NAME"); found != "dbname2" {
			t.Errorf("step %d: found %q of the environment", i, found)
		}
	}
}

// TestVariables is the table of SCR's test of variables in values, and ours of files.
func TestVariables(t *testing.T) {
	vars := []string{"VAR_A=value a", "VAR_B=value b", "N1=x"}
	for in, want := range map[string]string{
		"$VAR_A": "value a", "${VAR_A}": "value a", "${VAR_A": "${VAR_A", "${VAR_A}>": "value a>", "$VAR_A>": "value a>",
		"$VAR_A ${VAR_B}": "value a value b", "$VAR_A ${VAR_B}:": "value a value b:", ":$VAR_A ${VAR_B}:": ":value a value b:",
		"$VAR_A ${VAR_B>}": "value a ${VAR_B>}", "$VAR_C": "", "a$": "a$", "$": "$", "$$N1": "$x", `\n`: `\n`, "${}": "", "$N1}": "$N1}",
	} {
		s, _ := Resolve(Sources{Dir: "/", Environ: []string{"SCR_JOB_NAME=" + in}, Variables: vars})
		if found, _ := s.Query("SCR_JOB_NAME"); found != want {
			t.Errorf("environment: %q: found %q, wanted %q", in, found, want)
		}
		if strings.Contains(in, " ") { // it ends a value there
			continue
		}
		s, _ = Resolve(Sources{Dir: "/", App: []string{"SCR_JOB_NAME=" + in}, Variables: vars})
		if found, _ := s.Query("SCR_JOB_NAME"); found != want {
			t.Errorf("SCR_Config: %q: found %q, wanted %q", in, found, want)
		}
	}
	for in, want := range map[string]string{
		"/x/$N1": "/x/x", "/x/${N1}/y": "/x/x/y", `/x\$N1`: "/x$N1", `a\tb\\`: "a\tb\\", `a\`: "a", "a$": "a$",
	} {
		s, notes := Resolve(Sources{Dir: "/", User: "SCR_JOB_NAME=" + in, Variables: vars})
		if found, _ := s.Query("SCR_JOB_NAME"); found != want {
			t.Errorf("file: %q: found %q, wanted %q; %v", in, found, want, notes)
		}
	}
}

func TestFile(t *testing.T) {
	const text = "# comment\n\n  scr_flush = 20 # and this\r\nSCR_DEBUG=2#3\nSCR_DEBUG\t=\t1\nSCR_HALT_SECONDS=3600 SCR_RUNS=3\n" +
		"SCR_FETCH 0\nSCR_CURRENT=a=b\nSCR_CURRENT=\nSCR_CACHE_BASE=/shm/$NOT\n=x\nSCR_SET_SIZE=# no\nSCR_CACHE_SIZE=3"
	s, notes := Resolve(Sources{Dir: "/", User: text, UserName: "u"})
	for name, want := range map[string]string{"SCR_FLUSH": "20 u:3", "SCR_DEBUG": "1 u:5", "SCR_HALT_SECONDS": "3600 u:6", "SCR_RUNS": "1 built-in",
		"SCR_FETCH": "1 built-in", "SCR_CURRENT": " built-in", "SCR_CACHE_BASE": "/dev/shm built-in", "SCR_CACHE_SIZE": "3 u:13"} {
		if set, _ := s.Get(name); fmt.Sprint(set.Value, " ", set.Origin) != want {
			t.Errorf("%s: found %s %v, wanted %s", name, set.Value, set.Origin, want)
		}
	}
	want := []string{
		"u:5: SCR_DEBUG stands in line 4, too: the last holds",
		"u:6: SCR_RUNS stands behind SCR_HALT_SECONDS and has no effect there: give it a line of its own",
		`u:7: "SCR_FETCH" without = behind it: the line is not used`,
		`u:8: the value of "SCR_CURRENT" has a =, which files cannot have there: the line is not used`,
		`u:9: "SCR_CURRENT" has no value: the line is not used`,
		"u:10: there is no variable NOT in the environment: the line is not used",
		"u:11: = without a name in front of it: the line is not used",
		`u:12: "SCR_SET_SIZE" has no value: the line is not used`,
		"SCR_DEBUG=1 (u:5) has no effect: " + byTimeline,
	}
	compare(t, notes, want)
}

func compare(t *testing.T, notes []Note, want []string) {
	t.Helper()
	for i := range max(len(notes), len(want)) {
		switch {
		case i >= len(notes):
			t.Errorf("wanted %q", want[i])
		case i >= len(want):
			t.Errorf("found %q", notes[i].Text)
		case notes[i].Text != want[i]:
			t.Errorf("found  %q\nwanted %q", notes[i].Text, want[i])
		}
	}
}

func TestNotes(t *testing.T) {
	s, notes := Resolve(Sources{Dir: "/", UserErr: "no such file", UserName: "/c", Environ: []string{"SCR_FLSUH=3", "SCR_LOG_DB_PASS=secret", "SCR_COPY_TYPE=rs",
		"SCR_FLUSH_ASYNC=yes", "SCR_LOG_DB_ENABLE=on", "SCR_MIN_NODES=4", "SCR_PREFIX=", "SCR_CACHE_BASE=shm", "SCR_ZYXWVUT=1", "SCR_RUNS=1", "SCR_FLUSH_ASYNC_BW=10b", "HOME=/h"},
		App: []string{"FLUSH=3", "SCR_CONFIG_FILE=/x", "SCR_CURRENT"}, System: "SCR_CONF_FILE=/x\n", SystemName: "s"})
	compare(t, notes, []string{
		"the user's file, /c, is not read: no such file",
		`SCR_Config of "SCR_CURRENT": a question, wanted NAME=value`,
		"SCR_CONF_FILE=/x (s:1) has no effect there: it is looked for before that is read",
		"SCR_CONFIG_FILE=/x (SCR_Config) has no effect there: it is looked for before that is read",
		"SCR_CACHE_BASE=shm (environment): wanted an absolute path; /dev/shm is used instead (built-in)",
		"SCR_COPY_TYPE=rs (environment): " + notRS,
		"SCR_FLUSH_ASYNC=yes (environment): wanted 0 or 1; 1 is used instead (built-in)",
		"SCR_FLUSH_ASYNC_BW=10b (environment): wanted a size, as 128K; 200M is used instead (built-in)",
		"SCR_MIN_NODES=4 (environment) has no effect: " + find("SCR_MIN_NODES").instead,
		"SCR_LOG_DB_ENABLE=on (environment): wanted 0 or 1; 0 is used instead (built-in)",
		"SCR_LOG_DB_PASS=(not shown) (environment) has no effect: " + noDatabase,
		"SCR_FLSUH (environment) is no parameter of SCR: did you mean SCR_FLUSH?",
		"SCR_ZYXWVUT (environment) is no parameter of SCR",
		"FLUSH (SCR_Config) is no parameter of SCR: did you mean SCR_FLUSH?",
	})
	for _, n := range notes {
		if n.Level == Refused != (n.Name == "SCR_COPY_TYPE") {
			t.Errorf("%v: %v", n.Level, n)
		}
	}
	if set, _ := s.Get("log_db_pass"); set.Value != "(not shown)" {
		t.Errorf("found the password %q", set.Value)
	}
	if p := s.Plan(); p.Prefix != "/" || p.CopyType != "XOR" || !p.FlushAsync || p.FlushAsyncSet {
		t.Errorf("found %+v", p)
	}
	_, notes = Resolve(Sources{Dir: "/", User: strings.Repeat("x\n", 1000), Environ: []string{"SCR_COPY_TYPE=RS"}})
	if last := notes[len(notes)-1]; len(notes) != mostNotes+2 || last.Text != "900 more notes are left out" {
		t.Errorf("found %d notes, the last %q", len(notes), last.Text)
	}
}

func TestValues(t *testing.T) {
	for in, want := range map[string]int64{"0": 0, "1": 1, "128K": 128 << 10, "1.5m": 3 << 19, "2gb": 2 << 30, "1.4TB": 1539316278886, "1e3": 1000, "1e": 1 << 60, "7E": 7 << 60} {
		if n, ok := bytes(in); !ok || n != want {
			t.Errorf("%q: found %d, %v, wanted %d", in, n, ok, want)
		}
	}
	for _, in := range []string{"", "b", "k", "10b", "1kk", "1kbb", "-1", "8e", "nan", "inf", "1e999", "1 k"} {
		if n, ok := bytes(in); ok {
			t.Errorf("%q: found %d", in, n)
		}
	}
	for _, in := range []string{"", "+", "1.0", "0x10", "10 ", "99999999999", "--1", "+-1"} {
		if n, ok := integer(in); ok {
			t.Errorf("%q: found %d", in, n)
		}
	}
	if n, ok := integer("+7"); !ok || n != 7 {
		t.Errorf("+7: found %d", n)
	}
}

func TestPaths(t *testing.T) {
	for _, c := range []struct {
		src          Sources
		user, system string
		named        bool
	}{
		{Sources{Dir: "/job"}, "/job/.scrconf", "/etc/scr.conf", false},
		{Sources{Dir: "/job", Environ: []string{"SCR_PREFIX=out/../x/"}}, "/job/x/.scrconf", "/etc/scr.conf", false},
		{Sources{Dir: "/job", App: []string{"SCR_PREFIX=/p"}, Environ: []string{"SCR_CONFIG_FILE=s"}}, "/p/.scrconf", "/job/s", false},
		{Sources{Dir: "/job", App: []string{"SCR_CONF_FILE=c", "SCR_PREFIX=/p"}}, "/job/c", "/etc/scr.conf", true},
		{Sources{Dir: "/job", App: []string{"SCR_CONF_FILE=/c", "SCR_CONF_FILE="}}, "/job/.scrconf", "/etc/scr.conf", false},
		{Sources{Dir: "/job", App: []string{"SCR_CONF_FILE=/c"}, Environ: []string{"SCR_CONF_FILE=$D/e"}, Variables: []string{"D=/d"}}, "/d/e", "/etc/scr.conf", true},
	} {
		user, named := UserPath(c.src)
		if system, _ := SystemPath(c.src); user != c.user || named != c.named || system != c.system {
			t.Errorf("%+v: found %s, %v, %s", c.src, user, named, system)
		}
	}
}

// TestSecrets: a password is nowhere, but where the program asks for it itself.
func TestSecrets(t *testing.T) {
	src := Sources{Dir: "/", Environ: []string{"SCR_DB_PASS=hush$X"}, User: "SCR_DB_PASS=hush\nSCR_DB_PASS hush\nSCR_DB_PASS=a=hush", System: "SCR_DB_PASS=hush$X",
		App: []string{"SCR_DB_PASS hush", "SCR_DB_PASS=hush$Y", "SCR_DB_PASS=hush X"}}
	s, notes := Resolve(src)
	if text := fmt.Sprint(notes, s.List(), s.InForce()); strings.Contains(text, "hush") || len(notes) < 6 {
		t.Errorf("found it in %s", text)
	}
	if v, _ := s.Query("SCR_DB_PASS"); v != "hush" {
		t.Errorf("found %q", v)
	}
}

// TestCache: that nodes have caches is no wish of the user's, but has files in them.
func TestCache(t *testing.T) {
	run := []string{"SCR_CACHE_BASE=/run/cache", "SCR_CACHE_BYPASS=0", "SCR_SET_SIZE=4"}
	for _, c := range []struct {
		environ     []string
		bypass, set bool
	}{{nil, false, false}, {[]string{"SCR_CACHE_BYPASS=1"}, true, true}, {[]string{"SCR_CACHE_BYPASS=0"}, false, true}} {
		s, notes := Resolve(Sources{Dir: "/", Environ: c.environ, Run: run})
		if p := s.Plan(); p.Bypass != c.bypass || p.BypassSet != c.set || p.CacheBase != "/run/cache" || p.Descriptor(1, false).SetSize != 4 || len(notes) > 0 {
			t.Errorf("%v: found %+v, %v", c.environ, p, notes)
		}
	}
}

func TestImplications(t *testing.T) {
	s, _ := Resolve(Sources{Dir: "/d", Environ: []string{"SCR_GLOBAL_RESTART=2", "SCR_FLUSH_ASYNC=0", "SCR_CHECKPOINT_SECONDS=90", "SCR_CHECKPOINT_OVERHEAD=2.5"}})
	p := s.Plan()
	if !p.GlobalRestart || !p.FetchBypass || !p.FlushOnRestart || p.FlushAsync || !p.FlushAsyncSet || p.CheckpointSeconds != 90 || p.CheckpointOverhead != 2.5 {
		t.Errorf("found %+v", p)
	}
	in := strings.Join(s.InForce(), " ")
	for _, want := range []string{"SCR_PREFIX=/d", "SCR_GLOBAL_RESTART=1", "SCR_FLUSH=10", "SCR_ENABLE=1"} {
		if !strings.Contains(" "+in+" ", " "+want+" ") {
			t.Errorf("found %s, wanted %s", in, want)
		}
	}
	if strings.Contains(in, "SCR_RUNS") {
		t.Errorf("found %s", in)
	}
}

func TestRequest(t *testing.T) {
	q, err := ParseRequest([]string{"/d", "E SCR_A=1", "C STORE=/x COUNT=1", "E B=", "STORE=/x COUNT"})
	if err != nil || fmt.Sprint(q) != "{/d [SCR_A=1 B=] [STORE=/x COUNT=1] STORE=/x COUNT}" {
		t.Errorf("found %v, %v", q, err)
	}
	for _, text := range [][]string{nil, {"d"}, {"/d", "E X=1", "Q", "C Y=1"}, {"/d", "Q", "Q"}} {
		if q, err := ParseRequest(text); err == nil {
			t.Errorf("%q: found %v", text, q)
		}
	}
}
