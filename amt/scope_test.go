package amt_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"

	"github.com/byssus-hpc/byssus/amt"
	"github.com/byssus-hpc/byssus/mpi"
)

// A meeting is what a collective is here: all ranks come to it, and it knows whether they came for the same thing.
type meeting struct {
	n     int
	whats []string
	all   chan struct{}
}

type meetings struct {
	mu   sync.Mutex
	next []*meeting // by rank: the one that it comes to next
}

// come blocks until all ranks have come, and returns what for.
func (m *meetings) come(rank, ranks int, what string) []string {
	m.mu.Lock()
	if m.next == nil {
		m.next = make([]*meeting, ranks)
		first := &meeting{all: make(chan struct{})}
		for r := range m.next {
			m.next[r] = first
		}
	}
	at := m.next[rank]
	at.whats = append(at.whats, what)
	if at.n++; at.n == ranks {
		next := &meeting{all: make(chan struct{})}
		for r := range m.next {
			m.next[r] = next
		}
		close(at.all)
	}
	m.mu.Unlock()
	<-at.all
	return at.whats
}

type request struct {
	Scope int64
	Left  int64
}

var asking amt.Handler[request]

// world is what the handlers of one test share: one runs at a time.
var world = &struct {
	meetings
	scopes [][]*amt.Scope // by rank
	counts []map[int]int

	performed int
}{}

var performed amt.Handler[request]

func init() {
	asking.Is(onAsking)
	performed.Is(func(amt.Context, *request) { world.performed++ }) // on rank 0
}

// onAsking asks for an operation of a scope.
func onAsking(c amt.Context, m *request) {
	scope, what := int(m.Scope), *m
	me, ranks := c.Rank(), c.Ranks()
	world.scopes[me][scope].Do(c, func(comm *mpi.Comm) error {
		world.counts[me][scope]++
		number := world.counts[me][scope]
		name := fmt.Sprint(scope, ".", number)
		for _, other := range world.come(me, ranks, name) {
			if other != name {
				return fmt.Errorf("%s meets %s", name, other)
			}
		}
		sum := []int{scope*1000 + number + me}
		if err := mpi.Allreduce(comm, nil, sum, mpi.Sum); err != nil {
			return err
		}
		if want := ranks*(scope*1000+number) + ranks*(ranks-1)/2; sum[0] != want {
			return fmt.Errorf("%s: the sum is %d, want %d", name, sum[0], want)
		}
		return nil
	}, func(c amt.Context) { performed.Send(c, 0, &what) })
}

func TestScopes(t *testing.T) {
	const scopes, operations = 3, 50
	for _, ranks := range []int{1, 2, 4, 8} {
		for n := *seed; n < *seed+10; n++ {
			world.meetings, world.performed = meetings{}, 0
			world.scopes, world.counts = make([][]*amt.Scope, ranks), make([]map[int]int, ranks)
			err := amt.RunLocal(ranks, func(c amt.Context) error {
				me := c.Rank()
				world.counts[me] = map[int]int{}
				for s := range scopes {
					scope, err := c.Scope(fmt.Sprint("scope ", s))
					if err != nil {
						return err
					}
					world.scopes[me] = append(world.scopes[me], scope)
				}
				r := rand.New(rand.NewPCG(n, uint64(me)))
				var list []int
				for s := range scopes * operations {
					list = append(list, s%scopes)
				}
				r.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
				return c.Collective("operations", func(c amt.Context) error {
					for i, s := range list {
						if i%7 == 3 {
							c.Go("asks", func(c amt.Context) error {
								asking.Send(c, me, &request{Scope: int64(s)})
								return nil
							})
							continue
						}
						asking.Send(c, me, &request{Scope: int64(s)})
					}
					return nil
				}).Wait(c)
			})
			if err != nil {
				t.Fatalf("%d ranks, seed %d: %v", ranks, n, err)
			}
			if world.performed != ranks*scopes*operations {
				t.Fatalf("%d ranks, seed %d: %d operations were followed by a message", ranks, n, world.performed)
			}
			for rank, counts := range world.counts {
				for s := range scopes {
					if counts[s] != operations {
						t.Fatalf("%d ranks, seed %d: rank %d performed %d operations of scope %d", ranks, n, rank, counts[s], s)
					}
				}
			}
		}
	}
}

var join amt.Reduction[string]

func init() { join.Is(func(a, b string) string { return "(" + a + b + ")" }) }

func TestReduction(t *testing.T) {
	for _, ranks := range []int{1, 2, 5, 6, 23} {
		results := make([]string, ranks)
		for range 20 {
			err := amt.RunLocal(ranks, func(c amt.Context) error {
				for range 3 {
					v, err := join.All(c, string(rune('a'+c.Rank())))
					if err != nil {
						return err
					}
					if before := results[c.Rank()]; before != "" && before != v {
						return fmt.Errorf("%s, before: %s", v, before)
					}
					results[c.Rank()] = v
				}
				return nil
			})
			if err != nil {
				t.Fatalf("%d ranks: %v", ranks, err)
			}
		}
		want := "abcdefghijklmnopqrstuvwxyz"[:ranks] // the order of the ranks
		for rank, v := range results {
			if v != results[0] || strings.NewReplacer("(", "", ")", "").Replace(v) != want || strings.Count(v, "(") != ranks-1 {
				t.Errorf("%d ranks: rank %d has %s, rank 0 %s", ranks, rank, v, results[0])
			}
		}
		t.Log(results[0])
	}
}
