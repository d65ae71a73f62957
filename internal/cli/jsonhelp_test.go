package cli

import (
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/byssus-hpc/byssus/internal/act/coordsrv"
	"github.com/byssus-hpc/byssus/internal/decide/coord"
	"github.com/byssus-hpc/byssus/internal/host/sandbox"
	"github.com/byssus-hpc/byssus/internal/store/timeline"
)

// TestJSONIsDocumented: the help of each verb with --json names every field that it can print. Fields that hold what
// another verb prints are explained there.
func TestJSONIsDocumented(t *testing.T) {
	prints := map[string]any{"ps": coordsrv.Status{}, "list": listed{}, "show": shown{}, "verify": verified{},
		"checkpoint": coord.Result{}, "stop": coord.Result{}, "config": configuration{}, "sandbox list": sandbox.Summary{}, "sandbox ps": sandbox.Node{}}
	elsewhere := map[string]bool{"last_checkpoint": true, "running": true, "meta": true}
	for _, cmd := range append(Root().Commands(), verbOf(t, "sandbox").Commands()...) {
		if cmd.Name() == "show" {
			explained(t, cmd, reflect.TypeFor[timeline.Event](), nil)
		}
		if v, ok := prints[strings.TrimPrefix(cmd.CommandPath(), "byssus ")]; ok {
			skip := map[string]bool{"manifest": cmd.Name() != "list", "checkpoint": cmd.Name() == "show"}
			for name := range elsewhere {
				skip[name] = true
			}
			explained(t, cmd, reflect.TypeOf(v), skip)
		}
	}
}

func explained(t *testing.T, cmd *cobra.Command, v reflect.Type, skip map[string]bool) {
	for _, name := range fieldsOf(v, skip) {
		if !regexp.MustCompile(`\b` + name + `\b`).MatchString(cmd.Long) {
			t.Errorf("%s --json: field %s is not explained in its help", cmd.Name(), name)
		}
	}
}

func verbOf(t *testing.T, name string) *cobra.Command {
	cmd, _, err := Root().Find([]string{name})
	if err != nil {
		t.Fatal(err)
	}
	return cmd
}

// fieldsOf lists the names of all fields of a type, but does not look into those to skip.
func fieldsOf(t reflect.Type, skip map[string]bool) []string {
	for t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice {
		t = t.Elem()
	}
	if t.Kind() != reflect.Struct || t.PkgPath() == "time" {
		return nil
	}
	var names []string
	for i := range t.NumField() {
		f := t.Field(i)
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if name != "" && name != "-" {
			names = append(names, name)
		}
		if !skip[name] {
			names = append(names, fieldsOf(f.Type, skip)...)
		}
	}
	return names
}
