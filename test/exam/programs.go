package main

import (
	"strings"

	"github.com/byssus-hpc/byssus/test/harness"
)

// A program is one of the distribution, or a driver for one of its libraries. Rank 0 prints lines `result KEY VALUES`, unless text says
// how else what it prints is compared.
type program struct {
	name   string
	debs   string   // packages
	needs  []string // files that tell whether they are there
	build  string   // target of test/apps/exam's Makefile; "": nothing to build
	ranks  int
	argv   []string // files that exist in test/apps/exam are meant there
	inputs []string // files of test/apps/exam that it finds in its directory
	text   *text
}

// A text is for programs that print what they like.
type text struct {
	counts func(line string) bool // not those that differ from run to run
	step   string                 // is in a line that tells of progress
	files  []string               // what it writes there counts too
}

func programs() []program {
	return append(libraries(), codes()...)
}

// libraries are drivers of our own, and scripts.
func libraries() []program {
	const (
		python  = "/usr/bin/python3"
		dolfinx = "/usr/lib/petscdir/petsc3.18/x86_64-linux-gnu-real/lib/python3/dist-packages/dolfinx"
		lib     = "/usr/lib/x86_64-linux-gnu/"
	)
	return []program{
		{name: "petsc", debs: "libpetsc-real-dev", needs: []string{"/usr/lib/petsc/include/petsc.h"},
			build: "petsc", ranks: 2, argv: []string{"petsc", "900", "100"}},
		{name: "hypre", debs: "libhypre-dev", needs: []string{"/usr/include/hypre/HYPRE.h"},
			build: "hypre", ranks: 2, argv: []string{"hypre", "300", "60"}},
		{name: "sundials", debs: "libsundials-dev", needs: []string{"/usr/include/cvode/cvode.h"},
			build: "sundials", ranks: 2, argv: []string{"sundials", "200", "1000"}},
		{name: "boost", debs: "libboost-mpi-dev libboost-serialization-dev", needs: []string{"/usr/include/boost/mpi.hpp"},
			build: "boost", ranks: 2, argv: []string{"boost", "600", "2000"}},
		{name: "gpaw", debs: "gpaw gpaw-data", needs: []string{"/usr/bin/gpaw"},
			ranks: 2, argv: []string{python, "/usr/bin/gpaw", "python", "gpaw_h2o.py", "2"}},
		{name: "dolfinx", debs: "python3-dolfinx", needs: []string{dolfinx},
			ranks: 2, argv: []string{python, "dolfinx_heat.py", "300", "40"}},
		{name: "rmpi", debs: "r-cran-rmpi", needs: []string{"/usr/lib/R/site-library/Rmpi"},
			ranks: 2, argv: []string{"Rscript", "rmpi.R", "30", "60"}},
		{name: "mumps", debs: "gfortran libmumps-dev", needs: []string{lib + "libdmumps.so"},
			build: "mumps", ranks: 2, argv: []string{"mumps", "20", "12"}},
		{name: "parpack", debs: "gfortran libparpack2-dev", needs: []string{lib + "libparpack.so"},
			build: "parpack", ranks: 2, argv: []string{"parpack", "2000", "12"}},
		{name: "elpa", debs: "gfortran libelpa-dev libscalapack-openmpi-dev", needs: []string{lib + "libelpa.so"},
			build: "elpa", ranks: 2, argv: []string{"elpa", "400", "12"}},
	}
}

// codes are programs of the distribution that print what they like. Quantum ESPRESSO says with each time which clock it is of.
func codes() []program {
	espresso := &text{counts: harness.But(`WALL|total cpu time|starts on|terminated on`), step: "total energy   "}
	pw := []string{"/usr/bin/pw.x", "/usr/share/espresso/pseudo"}
	return []program{
		{name: "pw", debs: "quantum-espresso quantum-espresso-data", needs: pw,
			ranks: 2, argv: []string{"pw.x", "-in", "pw_al.in"}, text: espresso},
		{name: "pw-pools", debs: "quantum-espresso quantum-espresso-data", needs: pw,
			ranks: 4, argv: []string{"pw.x", "-nk", "2", "-in", "pw_al.in"}, text: espresso},
		{name: "pw-relax", debs: "quantum-espresso quantum-espresso-data", needs: pw,
			ranks: 2, argv: []string{"pw.x", "-nk", "2", "-in", "pw_si.in"}, text: espresso},
		{name: "elk", debs: "elk-lapw", needs: []string{"/usr/bin/elk-lapw"},
			ranks: 2, argv: []string{"elk-lapw"}, inputs: []string{"elk.in"},
			text: &text{counts: harness.But(`Tim(e|ings) |^ (initialisation|Hamiltonian and|first-variational|charge density calculation|potential calculation|total  )`),
				step: "Loop number", files: []string{"INFO.OUT", "EIGVAL.OUT", "TOTENERGY.OUT"}}},
		{name: "cp2k", debs: "cp2k cp2k-data", needs: []string{"/usr/bin/cp2k.psmp", "/usr/share/cp2k"},
			ranks: 2, argv: []string{"cp2k.psmp", "-i", "cp2k_h2o.inp"}, inputs: []string{"cp2k_h2o.inp"},
			text: &text{counts: cp2k, step: "MD| Step number"}},
	}
}

// cp2k are the results among what CP2K prints. Its files it opens for each step, to write at their end, without O_APPEND: what a life
// that is gone back from has written there stays, as Byssus says at the restart.
func cp2k(line string) bool {
	line = strings.TrimSpace(line)
	if strings.HasPrefix(line, "MD| CPU") || strings.HasPrefix(line, "MD| Estimated") {
		return false
	}
	return strings.HasPrefix(line, "MD") || strings.HasPrefix(line, "ENERGY|")
}
