// Command v1 is the first version of the program whose third version stands in the directory above. It guarantees that
// the file of version 1 there is one that this version has written.
//
//	go run ./v1 testdata/v1.pup
package main

import (
	"fmt"
	"os"

	"github.com/byssus-hpc/byssus/pup"
)

// Fleet is what is saved.
type Fleet struct {
	Day   int
	Buoys []Buoy
}

// Buoy measures.
type Buoy struct {
	Ident    int16
	Lat, Lon float32
	Probes   []Probe
	Notes    map[string]string
	Power    Power
}

// Probe measures at one depth.
type Probe struct {
	Depth float32
	Temp  []float32
}

// Power is what a buoy lives on.
type Power interface{ Left() float32 }

// Battery is a Power.
type Battery struct{ Charge float32 }

// Left implements Power.
func (b *Battery) Left() float32 { return b.Charge }

var (
	_ = pup.Register[Fleet]("ocean.Fleet")
	_ = pup.Register[Buoy]("ocean.Buoy")
	_ = pup.Register[Probe]("ocean.Probe")
	_ = pup.Register[Battery]("ocean.Battery")
)

// fleet is what the file holds.
func fleet() *Fleet {
	return &Fleet{100, []Buoy{
		{Ident: 7, Lat: 54.25, Lon: 7.5, Probes: []Probe{{1, []float32{8.5, 8.25}}, {10, []float32{7}}},
			Notes: map[string]string{"paint": "yellow", "chain": "worn"}, Power: &Battery{0.5}},
		{Ident: -1, Lat: -33.75, Lon: 151.125},
	}}
}

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: v1 FILE")
		os.Exit(2)
	}
	if err := pup.ToFile(os.Args[1], fleet()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
