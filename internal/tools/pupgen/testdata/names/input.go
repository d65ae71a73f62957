// Package names has names of its own where generated code wants its names.
package names

import (
	address "net/url"

	one "github.com/byssus-hpc/byssus/internal/tools/pupgen/testdata/names/one/other"
	two "github.com/byssus-hpc/byssus/internal/tools/pupgen/testdata/names/two/other"
)

var pup, url = 1, 2

// pupE0 is where the first block of e would be.
const pupE0 = 3

// The names of receiver, stream and element.
//
//pup:generate
type (
	x struct{ Name string }
	p [][]x
	e struct {
		A, B  int
		Texts [][]string
		p     map[string]*p
	}
)

// Fields are called like packages and parameters.
//
//pup:generate
type Fields struct {
	pup  string
	url  []address.URL
	p    []one.Stamp
	x    map[int][]two.Stamp
	time []*e
}

// Params has type parameters with awkward names.
//
//pup:generate
type Params[ee any, pup ~int, _ any] struct {
	Items []ee
	Deep  [][]ee
	Count pup
}

// Wide has a long block and long names.
//
//pup:generate
type Wide struct {
	Temperature, Pressure, Humidity, WindSpeed, WindDirection, Precipitation, CloudCover, Visibility, DewPoint float64

	ObservationsByStationAndDay map[string]map[int]map[string][]*Fields
}

func use() (int, int) { return pup + pupE0, url }

var _ = use
