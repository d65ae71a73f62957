package settings

import (
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the table of docs/files-config.md anew")

// markdown is the table as the page has it.
func markdown() string {
	var b strings.Builder
	for _, row := range Table() {
		builtin := row.BuiltIn
		if builtin != "" {
			builtin = "`" + builtin + "`"
		}
		here := "as there"
		if row.NoEffect != "" {
			here = "no effect: " + row.NoEffect
		}
		if strings.Contains(row.Type, "RS") {
			here = "RS is refused"
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %s | %s |\n", row.Name, row.Type, builtin, row.Does, here)
	}
	return b.String()
}

// TestPage: the page has the table that the code has.
func TestPage(t *testing.T) {
	const file, head = "../../../docs/files-config.md", "| name | value | built-in | | here |\n|---|---|---|---|---|\n"
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := strings.Cut(string(text), head)
	_, after, more := strings.Cut(rest, "\n## ")
	if !ok || !more {
		t.Fatalf("%s has no table of parameters", file)
	}
	want := before + head + markdown() + "\n## " + after
	if *update {
		if err := os.WriteFile(file, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	} else if want != string(text) {
		t.Errorf("%s: its table is not that of the code: go test ./internal/decide/settings -run TestPage -update", file)
	}
}

// documented are the parameters in the documentation of SCR 3.1 for users, in order of its pages.
const documented = `
	SCR_DEBUG SCR_CHECKPOINT_INTERVAL SCR_CHECKPOINT_SECONDS SCR_CHECKPOINT_OVERHEAD SCR_CNTL_BASE SCR_HALT_EXIT SCR_HALT_SECONDS SCR_GROUP
	SCR_COPY_TYPE SCR_CACHE_BASE SCR_CACHE_SIZE SCR_CACHE_BYPASS SCR_CACHE_PURGE SCR_SET_SIZE SCR_SET_FAILURES SCR_PREFIX SCR_PREFIX_SIZE
	SCR_PREFIX_PURGE SCR_CURRENT SCR_DISTRIBUTE SCR_FETCH SCR_FETCH_BYPASS SCR_FETCH_WIDTH SCR_FLUSH SCR_FLUSH_ASYNC SCR_FLUSH_POSTSTAGE
	SCR_FLUSH_TYPE SCR_FLUSH_WIDTH SCR_FLUSH_ON_RESTART SCR_GLOBAL_RESTART SCR_RUNS SCR_MIN_NODES SCR_EXCLUDE_NODES SCR_LOG_ENABLE
	SCR_LOG_TXT_ENABLE SCR_LOG_SYSLOG_ENABLE SCR_LOG_DB_ENABLE SCR_LOG_DB_DEBUG SCR_LOG_DB_HOST SCR_LOG_DB_NAME SCR_LOG_DB_USER SCR_LOG_DB_PASS
	SCR_MPI_BUF_SIZE SCR_FILE_BUF_SIZE SCR_WATCHDOG_TIMEOUT SCR_WATCHDOG_TIMEOUT_PFS
	SCR_ENABLE SCR_HOP_DISTANCE SCR_LOG_SYSLOG_PREFIX SCR_LOG_SYSLOG_FACILITY SCR_LOG_SYSLOG_LEVEL SCR_CRC_ON_COPY SCR_CRC_ON_FLUSH
	SCR_CRC_ON_DELETE SCR_CONF_FILE SCR_CONFIG_FILE`

// read are those that its code reads as well.
const read = `
	SCR_AXL_MKDIR SCR_CHECKPOINT_DIR_PATTERN SCR_CHECKPOINT_PATTERN SCR_CHECKPOINT_PATTERN_TOKEN SCR_CLUSTER_NAME SCR_COPY_METADATA
	SCR_DROP_AFTER_CURRENT SCR_END_TIME SCR_FLUSH_ASYNC_BW SCR_FLUSH_ASYNC_PERCENT SCR_FLUSH_ASYNC_USLEEP SCR_JOB_ID SCR_JOB_NAME SCR_NODELIST
	SCR_NODE_TESTS SCR_NODE_TESTS_FILE SCR_USER_NAME SCR_WATCHDOG SCR_FETCH_TYPE
	SCR_DB_ENABLE SCR_DB_HOST SCR_DB_NAME SCR_DB_PASS SCR_DB_USER`

// TestTable: every parameter of SCR has a row, no row another name, and what a row says can be shown.
func TestTable(t *testing.T) {
	names := strings.Fields(documented + read)
	s, notes := Resolve(Sources{Dir: "/"})
	if len(notes) > 0 {
		t.Errorf("without any settings: %v", notes)
	}
	for _, name := range names {
		set, ok := s.Get(name)
		if !ok || set.Name != name || set.Origin.Source != BuiltIn {
			t.Errorf("%s has no row: found %+v", name, set)
		}
	}
	for i, p := range parameters {
		if !slices.Contains(names, p.name) {
			t.Errorf("%s is none of SCR's", p.name)
		}
		if p.does == "" || strings.ContainsAny(p.does+p.instead, "|\n") {
			t.Errorf("%s: %q, %q", p.name, p.does, p.instead)
		}
		if find(p.name) != &parameters[i] {
			t.Errorf("%s has two rows", p.name)
		}
		if _, wrong := p.parse(p.builtin, "/"); p.builtin != "" && wrong != "" {
			t.Errorf("%s: built-in %q, wanted %s", p.name, p.builtin, wrong)
		}
	}
	if len(s.List()) != len(parameters) {
		t.Errorf("found %d settings, wanted %d", len(s.List()), len(parameters))
	}
}
