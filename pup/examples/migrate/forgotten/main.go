// Command forgotten is version 3 of the program in the directory above, by somebody who has forgotten two rules: that
// Lat and Lon are wider than before, and that Notes are gone. It guarantees nothing but the error that it prints.
//
// Nothing is guessed from data that does not fit. The error says which type it is about, which version the data
// has, which rule is lacking or does not fit, and lists the fields that differ. Some of those have a rule, as ID has;
// the others are what is to be declared.
//
//	cd pup/examples/migrate
//	go run ./forgotten testdata/v2.pup
//
// prints
//
//	pup: unpack: other schema: ocean.Buoy, version 2 in the data, 3 here: no rule for what differs
//	  ID: int16 in the data, int64 here
//	  Lat: float32 in the data, float64 here
//	  Lon: float32 in the data, float64 here
//	  Notes map[string]string: in the data, not here
package main

import (
	"fmt"
	"io"
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
	ID       int64
	Lat, Lon float64
	Sensors  []Sensor
	Power    any
	Owner    string
}

// Sensor measures at one depth.
type Sensor struct {
	Depth float32
	Temp  []float32
}

var (
	_ = pup.Register[Fleet]("ocean.Fleet")
	_ = pup.Register[Buoy]("ocean.Buoy", pup.SchemaVersion(3),
		pup.Renamed("Ident", "ID", 2), pup.Renamed("Probes", "Sensors", 2), pup.Added("Owner", 2),
		pup.Widened("ID", "int16", 3))
	_ = pup.Register[Sensor]("ocean.Sensor", pup.Alias("ocean.Probe"))
)

// run prints why a file cannot be read.
func run(out io.Writer, file string) error {
	data, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(out, pup.Unmarshal(data, &Fleet{}))
	return err
}

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: forgotten FILE")
		os.Exit(2)
	}
	if err := run(os.Stdout, os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
