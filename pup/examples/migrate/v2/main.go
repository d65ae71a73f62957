// Command v2 is the second version of the program whose third version stands in the directory above. It guarantees that
// the file of version 2 there is one that this version has written.
//
//	go run ./v2 testdata/v2.pup
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

// Buoy measures. Ident is called ID now, Probes are Sensors, Owner is new.
type Buoy struct {
	ID       int16
	Lat, Lon float32
	Sensors  []Sensor
	Notes    map[string]string
	Power    Power
	Owner    string
}

// Sensor measures at one depth. It was called Probe.
type Sensor struct {
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
	_ = pup.Register[Buoy]("ocean.Buoy", pup.SchemaVersion(2),
		pup.Renamed("Ident", "ID", 2), pup.Renamed("Probes", "Sensors", 2), pup.Added("Owner", 2))
	_ = pup.Register[Sensor]("ocean.Sensor", pup.Alias("ocean.Probe"))
	_ = pup.Register[Battery]("ocean.Battery")
)

// fleet is what the file holds.
func fleet() *Fleet {
	return &Fleet{200, []Buoy{
		{ID: 7, Lat: 54.25, Lon: 7.5, Sensors: []Sensor{{1, []float32{6.5}}}, Power: &Battery{0.25}, Owner: "BSH"},
		{ID: 300, Lat: 0.5, Lon: -140, Notes: map[string]string{"drogue": "lost"}, Owner: "PMEL"},
	}}
}

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: v2 FILE")
		os.Exit(2)
	}
	if err := pup.ToFile(os.Args[1], fleet()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
