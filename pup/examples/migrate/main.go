// Command migrate reads the files of two former versions of itself.
//
// The types below are in their third version. How they came to it is written where they are registered, as rules: each
// says what happened to a field, and since which version. The rules are all that is needed. A file carries the schema
// of its types, so pup knows which version it has, applies the rules that are younger, oldest first, and reads the
// data as it was written:
//
//	version 1   Buoy: Ident int16, Lat and Lon float32, Probes []Probe, Notes, Power
//	version 2   Buoy: Ident is called ID, Probes are called Sensors, Owner is new; the type Probe is called Sensor
//	version 3   Buoy: ID is an int64, Lat and Lon are float64, Notes are gone;
//	            Sensor, in its version 2: Temp is []float64; Battery, in its version 2: Volts are new
//
// Versions count for each type on its own. A field that old data does not have keeps what pup.Construct gave it, as
// Volts do, or zero. What was removed is read and dropped. Interfaces are no obstacle: what they hold brings its own
// schema, so a Battery of version 1 is read in Power.
//
// The programs in v1 and v2 are the former versions. They have written the files in testdata, and their tests compare
// what they would write today with those files, byte by byte. The program in forgotten lacks two rules, and shows
// what happens then.
//
//	cd pup/examples/migrate
//	go run . testdata/v1.pup testdata/v2.pup
//
// prints
//
//	v1.pup: day 100
//	  buoy 7 of nobody at 54.25 7.5, battery 0.5 at 12 volts
//	    at 1 m: [8.5 8.25]
//	    at 10 m: [7]
//	  buoy -1 of nobody at -33.75 151.125
//	v2.pup: day 200
//	  buoy 7 of BSH at 54.25 7.5, battery 0.25 at 12 volts
//	    at 1 m: [6.5]
//	  buoy 300 of PMEL at 0.5 -140
package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/byssus-hpc/byssus/pup"
)

// Fleet is what is saved. It has not changed: that the types of its fields have does not make another version of it.
type Fleet struct {
	Day   int
	Buoys []Buoy
}

var _ = pup.Register[Fleet]("ocean.Fleet")

// Buoy measures.
type Buoy struct {
	ID       int64
	Lat, Lon float64
	Sensors  []Sensor
	Power    Power
	Owner    string
}

var _ = pup.Register[Buoy]("ocean.Buoy", pup.SchemaVersion(3),
	pup.Renamed("Ident", "ID", 2),
	pup.Renamed("Probes", "Sensors", 2),
	pup.Added("Owner", 2),
	pup.Widened("ID", "int16", 3), // by the name that the field has in version 3
	pup.Widened("Lat", "float32", 3),
	pup.Widened("Lon", "float32", 3),
	pup.Removed("Notes", 3),
	pup.Construct(func() Buoy { return Buoy{Owner: "nobody"} }))

// Sensor measures at one depth. It was called Probe.
type Sensor struct {
	Depth float32
	Temp  []float64
}

var _ = pup.Register[Sensor]("ocean.Sensor", pup.Alias("ocean.Probe"), pup.SchemaVersion(2),
	pup.Widened("Temp", "[]float32", 2))

// Power is what a buoy lives on.
type Power interface{ Left() float32 }

// Battery is a Power.
type Battery struct {
	Charge float32
	Volts  float32
}

var _ = pup.Register[Battery]("ocean.Battery", pup.SchemaVersion(2), pup.Added("Volts", 2),
	pup.Construct(func() Battery { return Battery{Volts: 12} }))

// Left implements Power.
func (b *Battery) Left() float32 { return b.Charge }

// String is for report.
func (b *Battery) String() string { return fmt.Sprintf("battery %v at %v volts", b.Charge, b.Volts) }

func report(out io.Writer, name string, f *Fleet) {
	fmt.Fprintf(out, "%s: day %d\n", name, f.Day)
	for _, b := range f.Buoys {
		fmt.Fprintf(out, "  buoy %d of %s at %v %v", b.ID, b.Owner, b.Lat, b.Lon)
		if b.Power != nil {
			fmt.Fprintf(out, ", %v", b.Power)
		}
		fmt.Fprintln(out)
		for _, s := range b.Sensors {
			fmt.Fprintf(out, "    at %v m: %v\n", s.Depth, s.Temp)
		}
	}
}

func run(out io.Writer, files []string) error {
	for _, file := range files {
		f := &Fleet{}
		if err := pup.FromFile(file, f); err != nil {
			return err
		}
		report(out, filepath.Base(file), f)
	}
	return nil
}

func main() {
	if err := run(os.Stdout, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
