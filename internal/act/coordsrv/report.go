package coordsrv

import (
	"fmt"
	"strings"
	"time"

	"github.com/byssus-hpc/byssus/internal/decide/coord"
	"github.com/byssus-hpc/byssus/internal/ui"
)

// lossReport is what the user is told when a job goes on after the loss of nodes.
type lossReport struct {
	start   uint64 // in which they were lost
	nodes   []string
	silent  time.Duration // from the last word of the first that was lost until that was noticed
	noticed time.Time
	rebuilt int64         // bytes that were made again
	took    time.Duration // for that
}

// nodeLost notes that one is gone which had ranks.
func (t *story) nodeLost(p *peer, start uint64) {
	if len(p.ranks) == 0 {
		return
	}
	if t.report == nil {
		now := time.Now()
		t.report = &lossReport{start: start, noticed: now, silent: now.Sub(p.lastHeard())}
	}
	t.report.nodes = append(t.report.nodes, p.name)
}

// rebuilt notes what was made again.
func (t *story) rebuilt(bytes int64, took time.Duration) {
	if t.report != nil {
		t.report.rebuilt += bytes
		t.report.took += took
	}
}

// goesOn tells about a recovery when the job runs again. What is computed again is what ranks had done since the images were
// written that they go on from; of images from before this byssus ran that is not known.
func (t *story) goesOn(st coord.Status, start uint64) {
	if t.report == nil || t.report.start == start || st.Phase != coord.Running.String() {
		return
	}
	r := t.report
	t.report = nil
	text := fmt.Sprintf("recovered from the loss of %s: noticed %s after the last word; ", strings.Join(r.nodes, ", "), ui.Duration(r.silent))
	if r.rebuilt > 0 {
		text += fmt.Sprintf("%s made again in %s; ", ui.Bytes(r.rebuilt), ui.Duration(r.took))
	}
	text += fmt.Sprintf("running again %s after it was noticed", ui.Duration(time.Since(r.noticed)))
	if at, ok := t.sealedAt[st.Image]; ok {
		text += fmt.Sprintf("; the work of %s is done again", ui.Duration(r.noticed.Add(-r.silent).Sub(at)))
	}
	t.say(text)
}
