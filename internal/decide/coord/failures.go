package coord

import "regexp"

// failures are the checkpoints that could not be taken since the last that was. What keeps them from being taken mostly does so for
// hours: it is said once, and how many there were when one is taken again, or when the job ends.
type failures struct {
	like  string // the last reason, without its numbers
	count int
}

var numbersIn = regexp.MustCompile(`[0-9]+`)

// sayNone tells why there is no checkpoint, unless that was told of the one before.
func (m *Machine) sayNone(why string) {
	like := numbersIn.ReplaceAllString(why, "#")
	m.failures.count++
	if like != m.failures.like {
		m.turn.say("no checkpoint: %s", why)
	}
	m.failures.like = like
}

// took tells of a checkpoint that was taken.
func (m *Machine) took(result Result) {
	if n := m.failures.count; n > 1 {
		m.turn.say("checkpoint %d is committed, after %d that could not be taken", result.Checkpoint, n)
	}
	m.failures = failures{}
	m.turn.do(Took{result})
}

// sayFailures tells, at the end of the job, what was told of the first alone.
func (m *Machine) sayFailures() {
	if n := m.failures.count; n > 1 {
		m.turn.say("the last %d checkpoints could not be taken", n)
	}
	m.failures = failures{}
}
