# test_doc: DOLFINx: a distributed mesh, forms compiled by a just-in-time compiler, assembly and PETSc solvers driven from
# python3 (petsc4py, mpi4py); the scatter of ghosts is a neighbourhood collective.
#
# Implicit steps of the heat equation. Arguments: steps and cells of a side. Rank 0 prints. DOLFINx orders the neighbours
# of a rank by who answered first, so that the last digits differ from run to run, also natively: ten digits are printed.
import sys

import numpy as np
import ufl
from dolfinx import fem, mesh
from dolfinx.fem import petsc
from mpi4py import MPI
from petsc4py import PETSc

steps = int(sys.argv[1]) if len(sys.argv) > 1 else 100
cells = int(sys.argv[2]) if len(sys.argv) > 2 else 64
comm = MPI.COMM_WORLD
domain = mesh.create_unit_square(comm, cells, cells)
V = fem.FunctionSpace(domain, ("Lagrange", 1))
u, v = ufl.TrialFunction(V), ufl.TestFunction(V)
old, now = fem.Function(V), fem.Function(V)
old.interpolate(lambda x: np.sin(5 * x[0]) * np.cos(3 * x[1]) + x[0] * x[1])
dt = fem.Constant(domain, PETSc.ScalarType(0.001))
a = fem.form(u * v * ufl.dx + dt * ufl.dot(ufl.grad(u), ufl.grad(v)) * ufl.dx)
L = fem.form(old * v * ufl.dx + dt * ufl.sin(old) * v * ufl.dx)
size = fem.form(now * now * ufl.dx)
facets = mesh.locate_entities_boundary(domain, 1, lambda x: np.isclose(x[0], 0.0))
fixed = fem.dirichletbc(PETSc.ScalarType(0.5), fem.locate_dofs_topological(V, 1, facets), V)
A = petsc.assemble_matrix(a, bcs=[fixed])
A.assemble()
b = petsc.create_vector(L)
solver = PETSc.KSP().create(comm)
solver.setOperators(A)
solver.setType("cg")
solver.getPC().setType("jacobi")
solver.setTolerances(rtol=1e-10)
for step in range(1, steps + 1):
    with b.localForm() as local:
        local.set(0)
    petsc.assemble_vector(b, L)
    petsc.apply_lifting(b, [a], [[fixed]])
    b.ghostUpdate(addv=PETSc.InsertMode.ADD, mode=PETSc.ScatterMode.REVERSE)
    petsc.set_bc(b, [fixed])
    solver.solve(b, now.vector)
    now.x.scatter_forward()
    old.x.array[:] = now.x.array
    total = comm.allreduce(fem.assemble_scalar(size), op=MPI.SUM)
    most = comm.allreduce(float(np.max(now.x.array)), op=MPI.MAX)
    if comm.rank == 0:
        print(f"result {step} {solver.getIterationNumber()} {total:.9e} {most:.9e}", flush=True)
