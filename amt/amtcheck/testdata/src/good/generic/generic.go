// Command generic uses a package of helpers around handlers.
package main

import (
	"fmt"

	"github.com/byssus-hpc/byssus/amt"

	"good/generic/box"
)

type point struct{ X, Y float64 }

type word struct{ Text string }

var (
	points box.Box[point]
	words  box.Box[word]
	sum    amt.Local[point]
	heard  amt.Local[[]*word]
)

func init() {
	points.Is(onPoint)
	words.Is(func(c amt.Context, m *word) { *heard.Of(c) = append(*heard.Of(c), m) })
}

func onPoint(c amt.Context, m *point) {
	s := sum.Of(c)
	s.X, s.Y = s.X+m.X, s.Y+m.Y
}

func program(c amt.Context) error {
	list := make([]point, 100)
	for i := range list {
		list[i] = point{float64(i), 1}
	}
	err := c.Collective("all", func(c amt.Context) error {
		box.PutAll(c, &points, list, func(c amt.Context) { words.Put(c, 0, &word{fmt.Sprint("from ", c.Rank())}) })
		return box.Each(c, list[:3], func(c amt.Context, p point) error {
			points.Put(c, 0, &p)
			return nil
		})
	}).Wait(c)
	if err == nil && c.Rank() == 0 {
		fmt.Println(len(*heard.Of(c)), "words", points.Sent(c) > 0)
	}
	return err
}

func main() { amt.Main(program) }
