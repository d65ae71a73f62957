package pup_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/byssus-hpc/byssus/test/harness"
)

// TestOtherMachines runs tests of this package, among them the one of the golden files, on a big-endian machine and on one
// of 32 bits: the bytes must be the same.
func TestOtherMachines(t *testing.T) {
	if runtime.GOARCH != "amd64" || os.Getenv("PUP_OTHER_MACHINE") != "" {
		t.Skip("this is the other machine")
	}
	for i, m := range []struct{ arch, emulator string }{{"s390x", "qemu-s390x"}, {"arm", "qemu-arm"}} {
		if !harness.ChosenOf(2, i) {
			continue
		}
		t.Run(m.arch, func(t *testing.T) {
			binary := filepath.Join(t.TempDir(), "pup.test")
			build := exec.Command("go", "test", "-c", "-o", binary, ".")
			build.Env = append(os.Environ(), "GOARCH="+m.arch, "CGO_ENABLED=0")
			if out, err := build.CombinedOutput(); err != nil {
				t.Fatalf("%v: %v\n%s", build, err, out)
			}
			args := []string{binary, "-test.timeout", "5m", "-test.run", "Golden|RoundTrip|Graph|OldVersions|Hostile|TestCheck|Damage|PointerShaped|Assumptions"}
			if m.emulator != "" {
				path, err := exec.LookPath(m.emulator)
				if err != nil {
					t.Skipf("SKIP: %s is missing (make deps)", m.emulator)
				}
				args = append([]string{path}, args...)
			}
			run := exec.Command(args[0], args[1:]...)
			run.Env = append(os.Environ(), "PUP_OTHER_MACHINE=1")
			if out, err := run.CombinedOutput(); err != nil {
				t.Fatalf("%v: %v\n%s", run, err, out)
			}
		})
	}
}
