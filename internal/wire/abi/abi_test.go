package abi

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// records are all structures that C sees too.
var records = []any{Header{}, Hello{}, Welcome{}, Clock{}, Met{}, Waiting{}, Stopped{}, Image{}, Resumed{}, Restored{}, Drain{},
	Page{}, ImageHeader{}, VMA{}, Chunk{}, Section{}, Object{}, SharedHead{}, Share{}, Hand{}, Claim{}}

// TestOffsets compiles a program that prints sizes and offsets and compares them with what Go's compiler made.
func TestOffsets(t *testing.T) {
	header, err := os.ReadFile("../../../rank/core/base/abi_gen.h")
	if err != nil {
		t.Fatal(err)
	}
	var prog, want strings.Builder
	prog.WriteString("#include <stdio.h>\n#include \"abi_gen.h\"\nint main(void){\n")
	for _, r := range records {
		typ := reflect.TypeOf(r)
		name, fields := cNames(t, string(header), typ)
		fmt.Fprintf(&prog, "printf(\"%s %%zu\\n\", sizeof(struct %s));\n", name, name)
		fmt.Fprintf(&want, "%s %d\n", name, typ.Size())
		for i, f := range fields {
			fmt.Fprintf(&prog, "printf(\"%s.%s %%zu\\n\", offsetof(struct %s, %s));\n", name, f, name, f)
			fmt.Fprintf(&want, "%s.%s %d\n", name, f, typ.Field(i).Offset)
		}
	}
	prog.WriteString("return 0;}\n")
	dir := t.TempDir()
	src, bin := filepath.Join(dir, "o.c"), filepath.Join(dir, "o")
	if err := os.WriteFile(src, []byte(prog.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("gcc", "-std=gnu11", "-Wall", "-Werror", "-I../../../rank/core/base", "-o", bin, src).CombinedOutput(); err != nil {
		t.Fatalf("gcc: %v\n%s", err, out)
	}
	got, err := exec.Command(bin).Output()
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(want.String(), string(got)); d != "" {
		t.Error("offsets: Go, C:\n" + d)
	}
}

// cNames finds the C struct with the same number of fields, by the order in the header.
func cNames(t *testing.T, header string, typ reflect.Type) (string, []string) {
	t.Helper()
	for _, block := range strings.Split(header, "\nstruct ")[1:] {
		name, body, _ := strings.Cut(block, " {\n")
		if strings.ReplaceAll(strings.TrimPrefix(name, "abi_"), "_", "") != strings.ToLower(typ.Name()) {
			continue
		}
		body, _, _ = strings.Cut(body, "};")
		var fields []string
		for _, line := range strings.Split(strings.TrimSpace(body), "\n") {
			decl, _, _ := strings.Cut(strings.TrimSpace(line), ";")
			f := strings.Fields(decl)[1]
			f, _, _ = strings.Cut(f, "[")
			fields = append(fields, f)
		}
		if len(fields) != typ.NumField() {
			t.Fatalf("struct %s: %d fields, Go has %d", name, len(fields), typ.NumField())
		}
		return name, fields
	}
	t.Fatalf("no struct for %s", typ)
	return "", nil
}

func TestHeaderIsCurrent(t *testing.T) {
	fresh := filepath.Join(t.TempDir(), "abi_gen.h")
	if out, err := exec.Command("go", "run", "./gencheader", "-o", fresh).CombinedOutput(); err != nil {
		t.Fatalf("gencheader: %v\n%s", err, out)
	}
	a, err := os.ReadFile(fresh)
	if err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile("../../../rank/core/base/abi_gen.h")
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(a, b) {
		t.Error("rank/core/base/abi_gen.h is stale: go generate ./internal/wire/abi")
	}
}

func TestMessages(t *testing.T) {
	clocks := make([]Clock, 25000)
	for i := range clocks {
		clocks[i] = Clock{Comm: uint64(i), Seq: uint64(i) * 3, NMembers: 2}
	}
	bodies := Clocks([]uint64{7}, clocks)
	if len(bodies) < 2 {
		t.Fatalf("%d clocks in %d bodies", len(clocks), len(bodies))
	}
	var got []Clock
	for _, b := range bodies {
		m, err := Parse(Packet(Message{Header: Header{Type: MsgTargets, Epoch: 5}, Body: b}))
		if err != nil {
			t.Fatal(err)
		}
		prefix, part, err := ParseClocks(m.Body, 1)
		if err != nil || prefix[0] != 7 {
			t.Fatal(prefix, err)
		}
		got = append(got, part...)
	}
	if d := cmp.Diff(clocks, got); d != "" {
		t.Error(d)
	}
	if bodies := Clocks(nil, nil); len(bodies) != 1 || len(bodies[0]) != 8 {
		t.Errorf("no clocks: %d bodies", len(bodies))
	}
}

func FuzzParse(f *testing.F) {
	f.Add(Packet(Message{Header: Header{Type: MsgHello}, Body: Encode(Hello{PID: 1}, "")}))
	f.Add(Packet(Message{Header: Header{Type: MsgClocks}, Body: Clocks(nil, []Clock{{Comm: 1}})[0]}))
	f.Add([]byte("SSYB"))
	f.Fuzz(func(t *testing.T, b []byte) {
		m, err := Parse(b)
		if err != nil {
			return
		}
		for _, nprefix := range []int{0, 1} {
			_, clocks, err := ParseClocks(m.Body, nprefix)
			if err == nil && len(clocks)*24+8*(nprefix+1) != len(m.Body) {
				t.Errorf("%d clocks out of %d bytes", len(clocks), len(m.Body))
			}
		}
	})
}
