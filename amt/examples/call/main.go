// Command call keeps a table that is spread over all ranks, by the hash of its keys: ranks put words into it, and ask for them. A word that
// says "see another" is looked up where that one lies: the request is handed on with its callback, and the last one replies. It runs on
// goroutines, or under the mpirun of MPICH or of Open MPI:
//
//	go run ./amt/examples/call
//	go build -o call ./amt/examples/call && mpirun -n 2 ./call
package main

import (
	"fmt"
	"hash/fnv"
	"strings"

	"github.com/byssus-hpc/byssus/amt"
)

// An entry is a word and what it means.
type entry struct{ Word, Meaning string }

// A query asks for the meaning of a word.
type query struct{ Word string }

// A found meaning, and how often it was handed on.
type found struct {
	Meaning string
	Hops    int64
}

// A further query is one that is handed on.
type further struct {
	query
	Hops  int64
	Reply amt.Callback[found]
}

var (
	puts    amt.Handler[entry]
	lookup  amt.Call[query, found]
	handsOn amt.Handler[further]
	words   amt.Local[map[string]string]
)

func init() {
	puts.Is(func(c amt.Context, e *entry) {
		mine := words.Of(c)
		if *mine == nil {
			*mine = map[string]string{}
		}
		(*mine)[e.Word] = e.Meaning
	})
	lookup.Is(func(c amt.Context, q *query, reply amt.Callback[found]) { answer(c, &further{*q, 0, reply}) })
	handsOn.Is(func(c amt.Context, q *further) { answer(c, q) })
}

// answer replies, or hands the question on.
func answer(c amt.Context, q *further) {
	meaning := (*words.Of(c))[q.Word]
	if other, ok := strings.CutPrefix(meaning, "see "); ok {
		handsOn.Send(c, owner(c, other), &further{query{other}, q.Hops + 1, q.Reply})
		return
	}
	q.Reply.Send(c, &found{meaning, q.Hops})
}

// owner is the rank that a word lies on.
func owner(c amt.Context, word string) int {
	h := fnv.New32a()
	h.Write([]byte(word))
	return int(h.Sum32() % uint32(c.Ranks()))
}

const synonyms = 200

// fill has rank 0 put all words, each a synonym of the one before.
func fill(c amt.Context) error {
	if c.Rank() == 0 {
		puts.Send(c, owner(c, "w0"), &entry{"w0", "the fine threads that mussels hold on by"})
		for n := 1; n <= synonyms; n++ {
			word := fmt.Sprint("w", n)
			puts.Send(c, owner(c, word), &entry{word, fmt.Sprint("see w", n-1)})
		}
	}
	return nil
}

func main() {
	amt.Main(func(c amt.Context) error {
		if err := c.Collective("fill", fill).Wait(c); err != nil {
			return err
		}
		answers := make([]found, synonyms+1)
		err := c.Collective("ask", func(c amt.Context) error {
			for n := range answers {
				c.Go("lookup", func(c amt.Context) (err error) {
					word := fmt.Sprint("w", n)
					answers[n], err = lookup.Wait(c, owner(c, word), &query{word})
					return err
				})
			}
			return nil
		}).Wait(c)
		if err != nil {
			return err
		}
		hops := int64(0)
		for n, a := range answers {
			if !strings.HasPrefix(a.Meaning, "the fine threads") || a.Hops != int64(n) {
				return fmt.Errorf("w%d: %q after %d hops", n, a.Meaning, a.Hops)
			}
			hops += a.Hops
		}
		if c.Rank() == 0 {
			fmt.Printf("each rank has looked up %d words, handed on %d times\n", synonyms+1, hops)
		}
		return nil
	})
}
