# test_doc: GPAW: ground states by finite differences, in plane waves and in a localised basis, one after the other, each
# with its forces; the library distributes the domain over the ranks and calls MPI from C.
#
# A water molecule is stretched step by step. In plane waves the last digits depend on how memory is aligned, and differ
# from run to run, also natively: nine decimals are printed.
# Arguments: steps. Rank 0 prints.
import sys

import numpy as np
from ase import Atoms
from gpaw import GPAW, PW
from gpaw.fftw import ESTIMATE
from gpaw.mpi import world

steps = int(sys.argv[1]) if len(sys.argv) > 1 else 4


def iteration(calc, name):
    def show():
        if world.rank == 0:
            print(f"result {name}.{calc.scf.niter} {calc.hamiltonian.e_total_free:.9f}", flush=True)

    calc.attach(show, 1)


for step in range(steps):
    long = 0.95 + 0.02 * step
    atoms = Atoms("OH2", [(0, 0, 0), (long, 0, 0), (-0.24, 0.93, 0)], cell=(5.5, 5.5, 5.5))
    atoms.center()
    for mode in ("fd", "lcao", PW(250, fftwflags=ESTIMATE)):
        how = "pw" if isinstance(mode, PW) else mode
        extra = {"basis": "dzp"} if how == "lcao" else {}
        calc = GPAW(mode=mode, h=0.22, txt=None, convergence={"energy": 1e-4}, symmetry="off", **extra)
        iteration(calc, f"{step}.{how}")
        atoms.calc = calc
        energy = atoms.get_potential_energy()
        force = np.linalg.norm(atoms.get_forces())
        if world.rank == 0:
            print(f"result {step}.{how} {energy:.9f} {force:.6f}", flush=True)
