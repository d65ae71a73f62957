package amt

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/byssus-hpc/byssus/amt"
)

// TestTrace: on every transport, what ranks have done is in one file, also after an error, and each message that is sent is handled later,
// by the clock of the machine.
func TestTrace(t *testing.T) {
	ring, hang := build(t, t.TempDir(), "../../amt/examples/ring"), build(t, t.TempDir(), "../../amt/examples/hang")
	file := filepath.Join(t.TempDir(), "trace.json")
	for _, s := range starts() {
		ranks := 4
		if s.argv != nil {
			if ranks = 2; s.argv[2] != "2" {
				continue
			}
		}
		for _, program := range []string{ring, hang} {
			out, err := s.run(t, []string{amt.TraceVariable + "=" + file}, program)
			if (err == nil) != (program == ring) || strings.Contains(out, amt.TraceVariable) {
				t.Errorf("%s: %s: %v\n%s", s.name, program, err, out)
			}
			var of struct {
				TraceEvents []struct {
					Ph, Cat, ID string
					Ts          float64
				}
				OtherData struct{ Parts []struct{ Rank int } }
			}
			b, err := os.ReadFile(file)
			if err == nil {
				err = json.Unmarshal(b, &of)
			}
			handled, sent, taken := 0, map[string]float64{}, 0
			for _, e := range of.TraceEvents {
				switch {
				case e.Cat == "handler":
					handled++
				case e.Ph == "s":
					sent[e.ID] = e.Ts
				}
			}
			for _, e := range of.TraceEvents {
				if e.Ph == "f" {
					taken++
					if at, ok := sent[e.ID]; !ok || at > e.Ts {
						t.Errorf("%s: %s: a message is handled at %v, and sent at %v (%v)", s.name, program, e.Ts, at, ok)
					}
				}
			}
			if want := 3 * (1000 + 1); err != nil || len(of.OtherData.Parts) != ranks || program == ring && (handled != want || taken != want || len(sent) != want) {
				t.Errorf("%s: %s: %v; %d parts, %d handler runs, %d messages sent, %d handled", s.name, program, err, len(of.OtherData.Parts), handled, len(sent), taken)
			}
		}
	}
}
