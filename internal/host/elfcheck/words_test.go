package elfcheck

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

func TestFaceOf(t *testing.T) {
	dir := t.TempDir()
	main := filepath.Join(dir, "main.c")
	if err := os.WriteFile(main, []byte("int MPI_Finalize(void);\nint main(void) { return MPI_Finalize(); }\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, mpi := range []string{"mpich", "openmpi"} {
		if out, err := exec.Command("mpicc."+mpi, "-o", filepath.Join(dir, mpi), main).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	for name, text := range map[string]string{"script": "#!/bin/sh\nset -e\n./openmpi 3 >log\n", "loop": "#!/bin/sh\n./loop; ./loop2\n",
		"loop2": "#!/bin/sh\n./loop\n", "data": "./openmpi\n"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	t.Chdir(dir)
	for _, c := range []struct {
		command []string
		want    string
	}{
		{[]string{"timeout", "30", "./openmpi", "x"}, "openmpi"},
		{[]string{"timeout", "30", "./mpich"}, "mpich"},
		{[]string{"bash", "-c", "ulimit -c 0; (exec ./openmpi) | tee log"}, "openmpi"},
		{[]string{"bash", "-c", "A=1 ./mpich&& ./openmpi"}, "mpich"},
		{[]string{"sh", "script"}, ""}, // not in PATH, as the shell's argument is a file
		{[]string{"sh", "./script"}, "openmpi"},
		{[]string{"./script"}, "openmpi"},
		{[]string{"./loop"}, ""},
		{[]string{"cat", "./data"}, ""},
		{[]string{"python3", "-c", "import os"}, ""},
		{nil, ""},
	} {
		if found := FaceOf(c.command); found != c.want {
			t.Errorf("%q: found %q, wanted %q", c.command, found, c.want)
		}
	}
}
