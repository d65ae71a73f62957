package coordsrv

import (
	"fmt"
	"strings"
	"time"

	"github.com/byssus-hpc/byssus/internal/coord"
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

// lostNode notes that one is gone which had ranks.
func (s *Server) lostNode(p *peer) {
	if len(p.ranks) == 0 {
		return
	}
	if s.report == nil {
		now := time.Now()
		s.report = &lossReport{start: s.number, noticed: now, silent: now.Sub(p.lastHeard())}
	}
	s.report.nodes = append(s.report.nodes, p.name)
}

// rebuilt notes what was made again.
func (s *Server) rebuilt(bytes int64, took time.Duration) {
	if s.report != nil {
		s.report.rebuilt += bytes
		s.report.took += took
	}
}

// goesOn tells about a recovery when the job runs again. What is computed again is what ranks had done since the images were
// written that they go on from; of images from before this byssus ran that is not known.
func (s *Server) goesOn(st coord.Status) {
	if s.report == nil || s.report.start == s.number || st.Phase != coord.Running.String() {
		return
	}
	r := s.report
	s.report = nil
	text := fmt.Sprintf("recovered from the loss of %s: noticed %s after the last word; ", strings.Join(r.nodes, ", "), ui.Duration(r.silent))
	if r.rebuilt > 0 {
		text += fmt.Sprintf("%s made again in %s; ", ui.Bytes(r.rebuilt), ui.Duration(r.took))
	}
	text += fmt.Sprintf("running again %s after it was noticed", ui.Duration(time.Since(r.noticed)))
	if at, ok := s.sealedAt[st.Image]; ok {
		text += fmt.Sprintf("; the work of %s is done again", ui.Duration(r.noticed.Add(-r.silent).Sub(at)))
	}
	s.opt.Say(text)
}
