package amt

import (
	"math/rand/v2"

	"github.com/byssus-hpc/byssus/amt/internal/wire"
)

// around is the transport of a rank of the trial.
func (t Trial) around(end wire.Transport) wire.Transport {
	if t.Seed == 0 {
		return end
	}
	return &shuffled{Transport: end, random: rand.New(rand.NewPCG(t.Seed, uint64(end.Rank()))), come: make([]fifo[[]byte], end.Ranks())}
}

// A shuffled transport hands out what has come in a random order, but that of each sender, and now and then nothing though something
// has come.
type shuffled struct {
	wire.Transport
	random  *rand.Rand
	come    []fifo[[]byte] // by sender
	senders []int          // of which something has come
}

// Look takes all that has come, and returns a batch of a random sender.
func (s *shuffled) Look(looks int) (int, []byte, error) {
	for {
		from, b, err := s.Transport.Look(looks)
		if err != nil {
			return 0, nil, err
		}
		if b == nil {
			break
		}
		if s.come[from].len() == 0 {
			s.senders = append(s.senders, from)
		}
		s.come[from].push(b)
		looks = 1
	}
	if len(s.senders) == 0 || s.random.IntN(4) == 0 {
		return 0, nil, nil
	}
	at := s.random.IntN(len(s.senders))
	from := s.senders[at]
	b := s.come[from].pop()
	if s.come[from].len() == 0 {
		last := len(s.senders) - 1
		s.senders[at] = s.senders[last]
		s.senders = s.senders[:last]
	}
	return from, b, nil
}

// Idle rests if nothing has come.
func (s *shuffled) Idle(turns int) {
	if len(s.senders) == 0 {
		s.Transport.Idle(turns)
	}
}
