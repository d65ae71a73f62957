package coord

import "time"

// setbacks decides how often a job that dies is started again, and from what.
//
// How far a job has come is told by the time that its ranks have run since its first start: its work. An image has the work of the
// moment at which its ranks stood; of images from before this process nothing is known, and 0 is taken, which can only make the
// job look further than it is for the first of its deaths. A job that has died has made up for it as soon as a checkpoint lies
// beyond the point at which it died: a checkpoint in front of it says nothing, since a program that always dies at one place makes
// one before each death.
//
// Until then it goes back to its newest image; when it has died from there twice, to an older one each time, and the last time to the
// oldest that there is: what kills it may be in the images that were made last.
type setbacks struct {
	work  map[uint64]time.Duration // by image
	base  time.Duration            // work at which the present start began
	began time.Duration            // when its ranks ran
	point time.Duration            // the farthest death that is not made up for
	redo  time.Duration            // work that was lost by it
	count int                      // deaths that are not made up for
	most  int                      // restarts for them
	all   int                      // deaths in all
	first uint64                   // the newest image at the first of these deaths
	tries int                      // starts from that one, or newer ones, that have ended so
	below uint64                   // only older images than this are used, if there are any; 0: all
}

// Times that are the same for a program may differ by this much from run to run: a part of the work that is done again, and always
// a little.
const (
	sameWork  = 4 // a fourth
	leastWork = 100 * time.Millisecond
)

func (s *setbacks) start(image uint64, now time.Duration) { s.base, s.began = s.work[image], now }

// stood: for that long nothing was done.
func (s *setbacks) stood(d time.Duration) { s.began += d }

// done is the work that is done at a time.
func (s *setbacks) done(now time.Duration) time.Duration { return s.base + now - s.began }

// died: the ranks of the present start are gone, which had begun from an image. Good are the images to go back to, ascending.
func (s *setbacks) died(now time.Duration, image uint64, good []uint64) {
	var oldest, newest uint64
	if len(good) > 0 {
		oldest, newest = good[0], good[len(good)-1]
	}
	s.all++
	s.count++
	at := s.done(now)
	if at >= s.point || s.count == 1 {
		s.point, s.redo = at, at-s.work[newest]
	}
	if s.count == 1 {
		s.first, s.tries = newest, 0
	}
	if image != 0 && image >= s.first {
		s.tries++
	}
	switch {
	case s.tries < triesPerImage:
	case s.count == s.most:
		s.below = oldest + 1
	case s.below == 0:
		s.below = s.first
	default:
		s.below = image
	}
}

// made: there is a new image, which makes up for all deaths before it if it lies beyond them.
func (s *setbacks) made(image uint64, work time.Duration) {
	s.work[image] = work
	if work > s.point+max(s.redo/sameWork, leastWork) {
		s.count, s.first, s.below, s.point, s.redo = 0, 0, 0, 0, 0
	}
}

// needs says whether an image may still be what the job has to go back to, whatever newer ones there are.
func (s *setbacks) needs(image uint64) bool { return s.count > 0 && image <= s.first }

// forget: an image is dropped.
func (s *setbacks) forget(image uint64) { delete(s.work, image) }
