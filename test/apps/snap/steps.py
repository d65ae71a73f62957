# steps.py: steps.c in Python: the same steps, the same options, the same last line.
import array
import os
import signal
import sys
import time

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../../build/lib/byssus/memory"))

import byssus
from mpi4py import MPI

world = MPI.COMM_WORLD
rank = world.rank
ALL = (1 << 64) - 1
options = {"every": "1", "size": "1000", "ms": "0", "until": "", "die": "-1@0@0", "keep": "1"}
options.update(a.split("=", 1) for a in sys.argv[2:])
steps, every = int(sys.argv[1]), int(options["every"])
die = tuple(int(x) for x in options["die"].split("@"))
n = (int(options["size"]) + rank * 8) // 8 + 1
state, other = array.array("Q", [77, 77]), array.array("Q", [5])
restored = False


def regions(found):
    global cells
    if found:
        assert sorted(found) == [1, 4, 7] and found[1] == 16 and found[4] == 8 and found[7] == 8 * n, found
    cells = array.array("Q", b"\xee" * (found.get(7) or 8 * n))
    return {7: cells, 1: state, 4: other}


def mix(x):
    x = (x ^ x >> 31) * 0x7FB5D329728EA185 & ALL
    x = (x ^ x >> 27) * 0x81DADEF4BC2DD44D & ALL
    return x ^ x >> 33


def of_all(value, type, op, code):
    mine, all = array.array(code, [value]), array.array(code, [0])
    world.Allreduce([mine, type], [all, type], op)
    return all[0]


def wait_for_the_end():
    there = state[0] < steps or not options["until"]
    while True:
        there = there or os.path.exists(options["until"])
        if of_all(int(there), MPI.INT, MPI.MIN, "i"):
            return
        time.sleep(0.01)


def die_at(moment):
    if (rank, state[0], moment) == die and not restored:
        os.kill(os.getpid(), signal.SIGKILL)


def snapshot(s):
    die_at(0)
    s.start(state[0])
    die_at(1)
    try:
        s.commit(0)
        die_at(2)
        return
    except byssus.NotYet:
        die_at(2)
    s.commit()


def main(s):
    global restored
    tag = s.restore(only=[1, 7]) if s else None
    assert other[0] == 5, other
    other[0] = 6
    if tag is None:
        state[0] = state[1] = 0
        for i in range(n):
            cells[i] = mix(rank * 1000003 + i)
    else:
        restored = True
        assert tag == state[0]
        if rank == 0:
            sys.stderr.write("steps: restored at step %d\n" % tag)
    while state[0] < steps:
        step = state[0] = state[0] + 1
        for i in range(n):
            cells[i] = mix(cells[i] + step & ALL)
        all = of_all(sum(cells) & ALL, MPI.UINT64_T, MPI.BXOR, "Q")
        state[1] = mix(state[1] + all & ALL)
        cells[0] = cells[0] + all & ALL
        time.sleep(int(options["ms"]) / 1000)
        wait_for_the_end()
        if step % every == 0:
            snapshot(s)
    mine = 0
    for c in cells:
        mine ^= mix(c)
    all = of_all(mine, MPI.UINT64_T, MPI.BXOR, "Q")
    if rank == 0:
        print("step %d of %d: %016x %016x" % (state[0], steps, all, state[1]), flush=True)
    if s:
        s.finish(keep=options["keep"] != "0")


try:
    if every > steps:
        regions({})
        main(None)
    else:
        with byssus.Snapshots(regions if rank % 2 else regions({}), rank, world.size, capture={7: byssus.TRACK}) as s:
            main(s)
except byssus.Error as e:
    sys.stderr.write("steps: rank %d: step %d: %d: %s\n" % (rank, state[0], e.result, e))
    world.Abort(7)
