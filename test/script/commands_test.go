package script

import (
	"context"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/byssus-hpc/byssus/test/harness"
)

// patience is how long a script waits for something that must come.
const patience = 90 * time.Second

func soon() (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.Background(), patience)
}

func cmdByssus(ts *testscript.TestScript, neg bool, args []string) {
	need(ts, args, 2)
	s := of(ts)
	ctx, cancel := soon()
	defer cancel()
	p, err := harness.Start(ctx, ts.MkAbs("."), environment(ts), append([]string{s.site.Byssus}, args[1:]...)...)
	ts.Check(err)
	s.ended(ts, p, args[0], neg)
}

// ended waits for the end of a byssus, checks its exit code (with neg: that it is another one) and makes its output the one that is looked at.
func (s *state) ended(ts *testscript.TestScript, p *harness.Proc, code string, neg bool) {
	found := strconv.Itoa(p.ExitCode())
	s.stdout, s.stderr = p.Stdout.String(), p.Stderr.String()
	if s.stderr != "" {
		ts.Logf("[stderr]\n%s", harness.Tail(s.stderr))
	}
	if !slices.Contains(strings.Split(code, "|"), found) && (code != "fail" || found == "0") {
		ts.Fatalf("exit code %s, want %s\n%s", found, code, harness.Tail(s.stdout))
	}
}

func match(ts *testscript.TestScript, neg bool, args []string, text, where string) {
	need(ts, args, 1)
	re, err := regexp.Compile("(?m)" + args[0])
	ts.Check(err)
	if re.MatchString(text) == neg {
		ts.Fatalf("%s: %q is there: %v, want %v\n%s", where, args[0], !neg == neg, !neg, harness.Tail(text))
	}
}

func cmdSays(ts *testscript.TestScript, neg bool, args []string) {
	match(ts, neg, args, of(ts).stderr, "standard error")
}

func cmdPrints(ts *testscript.TestScript, neg bool, args []string) {
	match(ts, neg, args, of(ts).stdout, "standard output")
}

func cmdStart(ts *testscript.TestScript, _ bool, args []string) {
	need(ts, args, 2)
	s, name := of(ts), args[0]
	var stdin *os.File
	if from, ok := strings.CutPrefix(args[1], "<"); ok {
		args = args[1:]
		stdin = s.input(ts, name, from)
		defer stdin.Close()
	}
	p, err := harness.StartReading(context.Background(), stdin, ts.MkAbs("."), environment(ts), append([]string{s.site.Byssus}, args[1:]...)...)
	ts.Check(err)
	s.jobs[name] = p
}

// input is the standard input of a job: a file, or a pipe that feed fills.
func (s *state) input(ts *testscript.TestScript, job, from string) *os.File {
	if from != "-" {
		f, err := os.Open(ts.MkAbs(from))
		ts.Check(err)
		return f
	}
	r, w, err := os.Pipe()
	ts.Check(err)
	s.inputs[job] = w
	return r
}

func cmdFeed(ts *testscript.TestScript, _ bool, args []string) {
	need(ts, args, 1)
	w, ok := of(ts).inputs[args[0]]
	if !ok {
		ts.Fatalf("job %s has no pipe", args[0])
	}
	if len(args) == 1 {
		ts.Check(w.Close())
		return
	}
	_, err := w.WriteString(ts.ReadFile(args[1]))
	ts.Check(err)
}

// job finds a background job of the script.
func job(ts *testscript.TestScript, name string) *harness.Proc {
	p, ok := of(ts).jobs[name]
	if !ok {
		ts.Fatalf("no job %s was started", name)
	}
	return p
}

func cmdUntil(ts *testscript.TestScript, _ bool, args []string) {
	need(ts, args, 2)
	p := job(ts, args[0])
	re, err := regexp.Compile("(?m)" + args[1])
	ts.Check(err)
	ctx, cancel := soon()
	defer cancel()
	if err := p.Until(ctx, args[1], re.MatchString); err != nil {
		ts.Fatalf("%v\n%s", err, harness.Tail(p.Stderr.String()))
	}
}

func cmdAwait(ts *testscript.TestScript, _ bool, args []string) {
	need(ts, args, 2)
	p := job(ts, args[0])
	ctx, cancel := soon()
	defer cancel()
	select {
	case <-p.Done():
		of(ts).ended(ts, p, args[1], false)
	case <-ctx.Done():
		ts.Fatalf("job %s does not end\n%s", args[0], harness.Tail(p.Stderr.String()))
	}
}

var signals = map[string]syscall.Signal{"INT": syscall.SIGINT, "TERM": syscall.SIGTERM, "KILL": syscall.SIGKILL, "USR1": syscall.SIGUSR1, "USR2": syscall.SIGUSR2, "TSTP": syscall.SIGTSTP,
	"HUP": syscall.SIGHUP, "STOP": syscall.SIGSTOP, "SEGV": syscall.SIGSEGV}

func cmdSignal(ts *testscript.TestScript, _ bool, args []string) {
	need(ts, args, 2)
	sig, ok := signals[args[1]]
	if !ok {
		ts.Fatalf("unknown signal %s", args[1])
	}
	p := job(ts, args[0])
	switch how := strings.Join(args[2:], " "); how {
	case "all":
		for _, d := range append(harness.Descendants(p.Pid()), harness.Process{Pid: p.Pid()}) {
			_ = syscall.Kill(d.Pid, sig) // it may have ended
		}
		return
	case "timeout":
		ts.Check(p.Signal(sig))
		ts.Check(syscall.Kill(-p.Pid(), sig))
		return
	}
	if sig == syscall.SIGINT { // as a terminal does
		ts.Check(syscall.Kill(-p.Pid(), sig))
		return
	}
	ts.Check(p.Signal(sig))
}

func cmdLose(ts *testscript.TestScript, _ bool, args []string) {
	need(ts, args, 2)
	i, err := strconv.Atoi(args[1])
	ts.Check(err)
	ranks := harness.Ranks(job(ts, args[0]).Pid())
	if i >= len(ranks) {
		ts.Fatalf("job %s has %d ranks", args[0], len(ranks))
	}
	ts.Check(syscall.Kill(ranks[i].Pid, syscall.SIGKILL))
}

func cmdSignalRank(ts *testscript.TestScript, _ bool, args []string) {
	need(ts, args, 3)
	i, err := strconv.Atoi(args[1])
	ts.Check(err)
	ts.Check(syscall.Kill(harness.Ranks(job(ts, args[0]).Pid())[i].Pid, signals[args[2]]))
}

func cmdSignalLauncher(ts *testscript.TestScript, _ bool, args []string) {
	need(ts, args, 2)
	p := job(ts, args[0])
	all := harness.Descendants(p.Pid())
	for _, d := range all {
		ofSpawner := func(s harness.Process) bool { return s.Pid == d.Parent && s.Parent == p.Pid() }
		if slices.ContainsFunc(all, ofSpawner) {
			ts.Check(syscall.Kill(d.Pid, signals[args[1]]))
		}
	}
}

func cmdGone(ts *testscript.TestScript, _ bool, _ []string) {
	ctx, cancel := soon()
	defer cancel()
	mark := of(ts).mark()
	ts.Check(harness.Poll(ctx, "the end of what was left behind", func() bool { return len(harness.Orphans(mark)) == 0 }))
}

func cmdUntil2(ts *testscript.TestScript, _ bool, args []string) {
	need(ts, args, 2)
	p := job(ts, args[0])
	re, err := regexp.Compile("(?m)" + args[1])
	ts.Check(err)
	ctx, cancel := soon()
	defer cancel()
	ts.Check(harness.Poll(ctx, args[1], func() bool { return re.MatchString(p.Stderr.String()) }))
}

// cmdAppear waits until one of some files is there; with neg until none is: what a failed checkpoint has left goes after it was told.
func cmdAppear(ts *testscript.TestScript, neg bool, args []string) {
	ctx, cancel := soon()
	defer cancel()
	ts.Check(harness.Poll(ctx, args[0], func() bool {
		there := slices.ContainsFunc(args, func(f string) bool { _, err := os.Stat(ts.MkAbs(f)); return err == nil })
		return there != neg
	}))
}

// -- damage --------------------------------------------------------------------------------------------------------

func cmdTmpfs(ts *testscript.TestScript, _ bool, args []string) {
	need(ts, args, 2)
	s, dir := of(ts), ts.MkAbs(args[0])
	ts.Check(os.MkdirAll(dir, 0o777))
	out, err := exec.Command("mount", "-t", "tmpfs", "-o", args[1], "byssus-test", dir).CombinedOutput()
	if err != nil {
		ts.Fatalf("mount: %v: %s", err, out)
	}
	s.mounts = append(s.mounts, dir)
}

func cmdFill(ts *testscript.TestScript, _ bool, args []string) {
	need(ts, args, 1)
	f, err := os.Create(ts.MkAbs(args[0]))
	ts.Check(err)
	defer f.Close()
	for block := make([]byte, 4096); err == nil; {
		_, err = f.Write(block)
	}
	if !errors.Is(err, syscall.ENOSPC) {
		ts.Fatalf("fill: %v, want no space left", err)
	}
}

func cmdCut(ts *testscript.TestScript, _ bool, args []string) {
	need(ts, args, 2)
	st, err := os.Stat(ts.MkAbs(args[0]))
	ts.Check(err)
	n, err := strconv.ParseInt(args[1], 10, 64)
	ts.Check(err)
	ts.Check(os.Truncate(ts.MkAbs(args[0]), st.Size()-n))
}

// overwrite replaces the bytes of a file at an offset by what change makes of them.
func overwrite(ts *testscript.TestScript, file string, at int64, n int, change func([]byte)) {
	f, err := os.OpenFile(ts.MkAbs(file), os.O_RDWR, 0)
	ts.Check(err)
	defer f.Close()
	b := make([]byte, n)
	_, err = f.ReadAt(b, at)
	ts.Check(err)
	change(b)
	_, err = f.WriteAt(b, at)
	ts.Check(err)
}

func cmdFlip(ts *testscript.TestScript, _ bool, args []string) {
	need(ts, args, 2)
	var at int64
	if args[1] == "data" {
		st, err := os.Stat(ts.MkAbs(args[0]))
		ts.Check(err)
		at = st.Size() / 2
	} else {
		var err error
		at, err = strconv.ParseInt(args[1], 0, 64)
		ts.Check(err)
	}
	overwrite(ts, args[0], at, 1, func(b []byte) { b[0] ^= 0x10 })
}

func cmdPoke(ts *testscript.TestScript, _ bool, args []string) {
	need(ts, args, 3)
	at, err := strconv.ParseInt(args[1], 0, 64)
	ts.Check(err)
	bytes, err := hex.DecodeString(args[2])
	ts.Check(err)
	overwrite(ts, args[0], at, len(bytes), func(b []byte) { copy(b, bytes) })
}

// cmdFuture makes what a later Byssus would have written: header and manifest are sound, their version is not known.
func cmdFuture(ts *testscript.TestScript, _ bool, args []string) {
	need(ts, args, 1)
	dir := ts.MkAbs(args[0])
	files, err := filepath.Glob(filepath.Join(dir, "*.img"))
	ts.Check(err)
	manifest := filepath.Join(dir, "manifest.json")
	text, err := os.ReadFile(manifest)
	ts.Check(err)
	for _, file := range files {
		overwrite(ts, file, 0, 4096, func(page []byte) {
			old := hex.EncodeToString(bigEndian(binary.LittleEndian.Uint32(page[4092:])))
			binary.LittleEndian.PutUint32(page[8:], 99)
			crc := checksum(page[:4092])
			binary.LittleEndian.PutUint32(page[4092:], crc)
			text = regexp.MustCompile(old).ReplaceAll(text, []byte(hex.EncodeToString(bigEndian(crc))))
		})
	}
	ts.Check(os.WriteFile(manifest, resealed(text), 0o600))
}
