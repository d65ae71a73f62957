package coord

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// images are the committed checkpoints of the job: which there are, which of them the job can go back to, and which are kept.
//
// They guarantee that no number is used twice; that a checkpoint is dropped only when enough newer good ones remain, and never the
// newest good one that the loss of nodes does not take, nor one that setbacks may still need; and that the job does not go on from one
// behind which it has gone back, or which has failed too often.
type images struct {
	turn     *turn
	keep     int // how many good ones remain
	setbacks *setbacks

	list    []uint64        // committed and not dropped, ascending
	flushed map[uint64]bool // those of them that the loss of nodes does not take, where that is not all the same
	bad     map[uint64]int  // restarts that failed, by image
	doubted map[uint64]bool // which a rank has found damaged, so that they are looked through before they are used again
	aside   map[uint64]bool // which the job has gone back behind
	told    []uint64        // of these, what the driver knows
	only    uint64          // the one that is to be gone back to, 0: any
	last    uint64          // highest number used
}

func newImages(t *turn, keep int, s *setbacks) images {
	return images{turn: t, keep: max(keep, 1), setbacks: s, bad: map[uint64]int{}, doubted: map[uint64]bool{}, aside: map[uint64]bool{},
		flushed: map[uint64]bool{}}
}

// begin takes in what there is at the Start.
func (im *images) begin(ev Start) {
	im.list = slices.Clone(ev.Images)
	slices.Sort(im.list)
	im.last, im.only, im.told = ev.Last, ev.Only, slices.Sorted(slices.Values(ev.Aside))
	for _, n := range ev.Flushed {
		im.flushed[n] = true
	}
	for _, n := range im.told {
		im.aside[n] = n != ev.Only
	}
	if len(im.list) > 0 {
		im.last = max(im.last, im.list[len(im.list)-1])
	}
}

// flush: from now on, the loss of nodes does not take an image. Running: the job is not about to go back, perhaps to one that is kept
// only for lack of this one.
func (im *images) flush(n uint64, running bool) {
	im.flushed[n] = true
	if running {
		im.prune()
	}
}

// number is that of a new checkpoint.
func (im *images) number() uint64 {
	im.last++
	return im.last
}

// candidate is the image to go on from, 0: none. The newest good one; but when the job has died again and again, an
// older one (see setbacks).
func (im *images) candidate() uint64 {
	good := im.good()
	if len(good) == 0 {
		return 0
	}
	for _, n := range slices.Backward(good) {
		if im.setbacks.below == 0 || n < im.setbacks.below {
			return n
		}
	}
	return good[len(good)-1]
}

// good are the images that can be gone back to, ascending.
func (im *images) good() []uint64 {
	var good []uint64
	for _, n := range im.list {
		if im.bad[n] < triesPerImage && !im.aside[n] && (im.only == 0 || im.only == n) {
			good = append(good, n)
		}
	}
	return good
}

// doubt takes in that a rank has found an image damaged; false: one has before, so that mending it has not helped.
func (im *images) doubt(n uint64) bool {
	was := im.doubted[n]
	im.doubted[n] = true
	return !was
}

// condemn: an image is not tried again.
func (im *images) condemn(n uint64) { im.bad[n] = triesPerImage }

// failed counts a start from an image that came to nothing; true: it is not tried again.
func (im *images) failed(n uint64) bool {
	im.bad[n]++
	return im.bad[n] >= triesPerImage
}

// wentOn: the job goes on from an image, which is good therefore, and is no longer bound to it.
func (im *images) wentOn(image uint64) {
	delete(im.bad, image)
	delete(im.doubted, image)
	im.leaveAside(image)
	im.only = 0
}

// leaveAside: the job goes on from an image, and so not to a newer one any more.
func (im *images) leaveAside(image uint64) {
	var all, more []uint64
	for _, n := range im.list {
		was := im.aside[n]
		im.aside[n] = n > image || was && n != image
		if im.aside[n] {
			all = append(all, n)
		}
		if im.aside[n] && !was {
			more = append(more, n)
		}
	}
	if len(more) > 0 {
		im.turn.say("newer checkpoints are left aside from now on: %s", numbers(more))
	}
	if !slices.Equal(all, im.told) {
		im.told = all
		im.turn.do(Aside{all})
	}
}

// asideHint tells of checkpoints that are not used because the job has gone back behind them.
func (im *images) asideHint() string {
	var left []uint64
	for _, n := range im.list {
		if im.aside[n] && im.bad[n] < triesPerImage {
			left = append(left, n)
		}
	}
	if len(left) == 0 {
		return ""
	}
	return fmt.Sprintf("; left aside, since the job had gone back behind it: %s (restart --checkpoint)", numbers(left))
}

func numbers(list []uint64) string {
	return strings.Trim(strings.ReplaceAll(fmt.Sprint(list), " ", ", "), "[]")
}

// add counts a committed checkpoint, and how much work was done when its ranks stood.
func (im *images) add(n uint64, work time.Duration) {
	im.list = append(im.list, n)
	im.setbacks.made(n, work)
	im.prune()
}

// counts takes in that a dataset of a plain job counts, or does not any more. Which of them are kept is not decided here.
func (im *images) counts(n uint64, counts bool, work time.Duration) {
	at, there := slices.BinarySearch(im.list, n)
	switch {
	case counts && !there:
		im.list = slices.Insert(im.list, at, n)
		im.only = 0 // it goes on behind the one that it was bound to
		im.setbacks.made(n, work)
	case !counts && there:
		im.list = slices.Delete(im.list, at, at+1)
		delete(im.bad, n)
		im.setbacks.forget(n)
	}
}

// prune drops the checkpoints behind the newest good ones, but for the newest good one that the loss of nodes does not take: what
// the others lie on may be lost together.
func (im *images) prune() {
	var kept []uint64
	good, safe := 0, false
	for _, n := range slices.Backward(im.list) {
		usable := im.bad[n] == 0 && !im.aside[n]
		last := usable && im.flushed[n] && !safe
		if good >= im.keep && !last && !im.setbacks.needs(n) {
			continue
		}
		kept = append(kept, n)
		safe = safe || last
		if usable {
			good++
		}
	}
	slices.Reverse(kept)
	for _, n := range im.list {
		if !slices.Contains(kept, n) {
			im.turn.do(Drop{n})
			delete(im.bad, n)
			delete(im.aside, n)
			delete(im.flushed, n)
			im.setbacks.forget(n)
		}
	}
	im.list = kept
}
