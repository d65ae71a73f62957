package script

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/byssus-hpc/byssus/internal/act/agent"
	"github.com/byssus-hpc/byssus/test/harness"
)

// rsh makes nodes of a job on this machine, each with a name, a cache and a /tmp of its own, where nobody cares for modes. What its
// agent is told is kept aside.
const rsh = `#!/bin/sh
umask 0
host=$1
shift
CMD="$*" exec unshare --mount --uts sh -c "hostname $host; mount -t tmpfs none cache; mount -t tmpfs none /tmp; echo \$\$ >aside/pid.$host; tee aside/brief.$host | eval \"\$CMD\""
`

// secretJob is a job on several hosts, and what nobody must see.
type secretJob struct {
	*harness.Job
	t       *testing.T
	dir     string
	secrets [][]byte
}

func newSecretJob(ctx context.Context, t *testing.T, mpi string) *secretJob {
	t.Helper()
	site, err := harness.Here()
	if err == nil {
		err = site.Build()
	}
	dir, derr := os.MkdirTemp("/var/tmp", "secrets.") // paths of sockets are short
	if err != nil || derr != nil {
		t.Fatal(err, derr)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	for _, d := range []string{"aside", "cache", "run"} {
		if err := os.Mkdir(filepath.Join(dir, d), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "rsh"), []byte(rsh), 0o700); err != nil {
		t.Fatal(err)
	}
	old := syscall.Umask(0) // this test's process starts nothing else meanwhile
	defer syscall.Umask(old)
	s := &secretJob{Job: site.NewJob("secret", dir, "XDG_RUNTIME_DIR="+filepath.Join(dir, "run"), "UCX_TLS=tcp,self"), t: t, dir: dir}
	t.Cleanup(s.Close)
	program := harness.Program{Name: "stencil", Args: []string{"--iters", "100000", "--pace", "5000"}}
	flags := []string{"-v", "--hosts", "one,two,three", "--spares", "1", "--rsh", filepath.Join(dir, "rsh"), "--address", "127.0.0.1",
		"--cache", filepath.Join(dir, "cache/own"), "--every", "1s", "--flush", "1"}
	if err := s.Run(ctx, mpi, 2, flags, site.Command(program, mpi)...); err != nil {
		t.Fatal(err)
	}
	s.until(ctx, "committed after", 2)
	return s
}

// until waits until something was said so often.
func (s *secretJob) until(ctx context.Context, text string, times int) {
	s.t.Helper()
	err := harness.Poll(ctx, text, func() bool { return strings.Count(s.Proc().Stderr.String(), text) >= times || !s.Proc().Running() })
	if err != nil || !s.Proc().Running() {
		s.t.Fatalf("%v\n%s", err, s.Story())
	}
}

// learn takes the keys of all agents from what they were told, in every form in which they could show up.
func (s *secretJob) learn(hosts ...string) {
	s.t.Helper()
	for _, h := range hosts {
		b, err := os.ReadFile(filepath.Join(s.dir, "aside/brief."+h))
		var brief agent.Brief
		if err == nil {
			err = json.Unmarshal(b, &brief)
		}
		const seed = 32 // at the end of an Ed25519 key as PKCS #8
		key := brief.Identity.Key
		if err != nil || len(key) <= seed {
			s.t.Fatalf("brief of %s: %v, key of %d bytes", h, err, len(key))
		}
		text := []byte(base64.StdEncoding.EncodeToString(key))
		if !bytes.Contains(b, text) {
			s.t.Fatal("the key's text is not what was looked for")
		}
		raw := key[len(key)-seed:]
		s.secrets = append(s.secrets, raw, text, []byte(hex.EncodeToString(raw)), []byte(base64.StdEncoding.EncodeToString(raw)))
	}
}

// search says where a secret is found in bytes.
func (s *secretJob) search(where string, b []byte) {
	for _, secret := range s.secrets {
		if bytes.Contains(b, secret) {
			s.t.Errorf("%s has a key of the job", where)
		}
	}
}

// processes looks at what everybody may ask of all processes, and returns how many there were.
func (s *secretJob) processes() int {
	n := 0
	for _, what := range []string{"cmdline", "environ"} {
		paths, _ := filepath.Glob("/proc/[0-9]*/" + what) // the pattern is sound
		for _, p := range paths {
			if b, err := os.ReadFile(p); err == nil { // it may have ended
				s.search(p, b)
				n++
			}
		}
	}
	return n
}

// tree looks at all files below a directory, which must be ours alone, and where they are Byssus's, these too. It returns how many
// there were.
func (s *secretJob) tree(root string, byssus bool) int {
	s.t.Helper()
	n := 0
	err := filepath.WalkDir(root, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.Type()&fs.ModeSymlink != 0 {
			return nil // gone meanwhile, or a link
		}
		st, err := e.Info()
		if err != nil {
			return nil
		}
		if st.Mode().Perm()&0o077 != 0 && (byssus || path == root) {
			s.t.Errorf("%s: found mode %v, wanted nothing for others", path, st.Mode())
		}
		if st.Mode().IsRegular() {
			if b, err := os.ReadFile(path); err == nil {
				s.search(path, b)
			}
		}
		n++
		return nil
	})
	if err != nil {
		s.t.Fatal(err)
	}
	return n
}

// pid is the first process of a host.
func (s *secretJob) pid(host string) int {
	s.t.Helper()
	b, err := os.ReadFile(filepath.Join(s.dir, "aside/pid."+host))
	pid, nerr := strconv.Atoi(strings.TrimSpace(string(b)))
	if err != nil || nerr != nil {
		s.t.Fatal(err, nerr)
	}
	return pid
}

// TestSecrets: while a job runs on several hosts nobody but its own processes can see a key of it: not in any command line or
// environment, in no file, in nothing that is printed, also when an agent dies of a signal that makes a dump; and what the job
// makes is the user's alone, whatever the umask.
func TestSecrets(t *testing.T) {
	if os.Getenv(inNamespace) != "yes" {
		t.Skip("SKIP: no namespaces")
	}
	for _, mpi := range harness.MPIs() {
		t.Run(mpi, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
			defer cancel()
			s := newSecretJob(ctx, t, mpi)
			s.learn("one", "two", "three")
			if n := s.processes(); n < 10 {
				t.Errorf("%d processes", n)
			}
			for _, root := range []string{"store/secret", "run/byssus"} {
				if n := s.tree(filepath.Join(s.dir, root), true); n < 4 {
					t.Errorf("%s: %d files", root, n)
				}
			}
			for _, h := range []string{"one", "two"} {
				if n := s.tree(fmt.Sprintf("/proc/%d/root%s/cache/own", s.pid(h), s.dir), true); n < 5 {
					t.Errorf("cache of %s: %d files", h, n)
				}
			}
			sessions, _ := filepath.Glob(fmt.Sprintf("/proc/%d/root/tmp/byssus*", s.pid("one"))) // the pattern is sound
			for _, dir := range sessions {
				s.tree(dir, false) // in which an MPI has its own
			}
			for _, args := range [][]string{{"ps", "--json"}, {"list", "--json", "secret"}, {"show", "--json", "secret"}} {
				out, errs, _ := s.Command(ctx, args...)
				s.search(strings.Join(args, " "), []byte(out+errs))
			}
			for _, p := range harness.Descendants(s.pid("two")) {
				if b, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", p.Pid)); err == nil && bytes.HasSuffix(b, []byte("\x00agent\x00")) {
					_ = syscall.Kill(p.Pid, syscall.SIGABRT)
				}
			}
			s.until(ctx, "node two was lost", 1)
			s.search("standard error", []byte(s.Proc().Stderr.String()))
			s.search("standard output", []byte(s.Proc().Stdout.String()))
			if !strings.Contains(s.Proc().Stderr.String(), "SIGABRT: abort") {
				t.Error("the agent has not said where it was when it died")
			}
			dumps, _ := filepath.Glob(filepath.Join(s.dir, "*core*"))
			for _, dump := range dumps {
				b, err := os.ReadFile(dump)
				if err != nil {
					t.Fatal(err)
				}
				s.search(dump, b)
			}
		})
	}
}
