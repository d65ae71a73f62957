package coord

import "regexp"

// failures are the checkpoints that could not be taken since the last that was. What keeps them from being taken mostly does so for
// hours: it is said once, and how many there were when one is taken again, or when the job ends.
type failures struct {
	turn  *turn
	like  string // the last reason, without its numbers
	count int
}

var numbersIn = regexp.MustCompile(`[0-9]+`)

// none tells why there is no checkpoint, unless that was told of the one before.
func (f *failures) none(why string) {
	like := numbersIn.ReplaceAllString(why, "#")
	f.count++
	if like != f.like {
		f.turn.say("no checkpoint: %s", why)
	}
	f.like = like
}

// took tells of a checkpoint that was taken.
func (f *failures) took(result Result) {
	if f.count > 1 {
		f.turn.say("checkpoint %d is committed, after %d that could not be taken", result.Checkpoint, f.count)
	}
	f.like, f.count = "", 0
	f.turn.do(Took{result})
}

// tell tells, at the end of the job, what was told of the first alone.
func (f *failures) tell() {
	if f.count > 1 {
		f.turn.say("the last %d checkpoints could not be taken", f.count)
	}
	f.like, f.count = "", 0
}
