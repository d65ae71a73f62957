# test_doc: python3 with sqlite3: a database of each rank with a write-ahead log, one with a journal that is removed, one with a
# journal that stays, and one that all ranks write by turns. Each transaction adds to what it reads, so that a state of a file that is
# not the one of the checkpoint counts too far, or is damaged.
#
# Same arguments and result lines as the C programs (app.h).
import argparse
import os
import sqlite3
import sys
import time

from mpi4py import MPI

STEPS = 5


def fnv(text):
    h = 0xCBF29CE484222325
    for byte in text.encode():
        h = (h ^ byte) * 0x100000001B3 & 0xFFFFFFFFFFFFFFFF
    return (h ^ h >> 32) & 0xFFFFFFFF


def line(rank, iteration, name, value):
    text = f"R {rank} {iteration} {name} {value:016x}"
    text = f"{text} {fnv(text):08x}\n"
    sys.stdout.write(text)
    sys.stdout.flush()
    if "TEST_RESULTS" in os.environ:
        with open(f"{os.environ['TEST_RESULTS']}.{rank}", "a") as file:
            file.write(text)


def check(condition, what):
    if not condition:
        sys.stderr.write(f"FAIL rank {MPI.COMM_WORLD.rank}: {what}\n")
        sys.stderr.flush()
        MPI.COMM_WORLD.Abort(3)


def compute(microseconds):
    begin = time.monotonic()
    end = begin + microseconds * 1e-6
    while begin <= time.monotonic() < end:
        sum(range(500))


def database(name, mode):
    base = sqlite3.connect(name, isolation_level=None, timeout=60)
    found = base.execute(f"pragma journal_mode={mode}").fetchone()[0]
    check(found == mode, f"{name}: journal mode {found}, wanted {mode}")
    base.execute("create table if not exists number (who integer primary key, value integer)")
    base.execute("create table if not exists rows (n integer primary key, text text)")
    return base


def add(base, who, want, what):
    """One transaction, in the middle of which the rank computes."""
    base.execute("begin immediate")
    value = base.execute("select value from number where who = ?", (who,)).fetchone()[0] + 1
    check(value == want, f"{what}: found {value}, wanted {want}")
    base.execute("update number set value = ? where who = ?", (value, who))
    compute(500)
    base.execute("insert into rows values (?, ?)", (value * 64 + who, "x" * (value % 700)))
    base.execute("commit")
    rows = base.execute("select count(*) from rows where n % 64 = ?", (who,)).fetchone()[0]
    check(rows == want, f"{what}: {rows} rows, wanted {want}")


def main():
    parser = argparse.ArgumentParser()
    for name, default in (("iters", 50), ("pace", 20000), ("seconds", 3), ("seed", 1)):
        parser.add_argument("--" + name, type=int, default=default)
    parser.add_argument("--until")
    args = parser.parse_args()
    comm = MPI.COMM_WORLD
    where = f"sqlite.{args.iters}.{args.pace}"
    if comm.rank == 0:
        os.makedirs(where, exist_ok=True)
        for name in os.listdir(where):
            os.unlink(os.path.join(where, name))
    comm.Barrier()
    os.chdir(where)
    own = {mode: database(f"{mode}.{comm.rank}", mode) for mode in ("wal", "delete", "persist")}
    for base in own.values():
        base.execute("insert into number values (?, 0)", (comm.rank,))
    if comm.rank == 0:
        database("common", "delete").close()
    comm.Barrier()
    common = database("common", "delete")
    common.execute("insert into number values (?, 0)", (comm.rank,))
    for iteration in range(args.iters):
        if comm.rank == 0:
            print("iter", iteration, flush=True)
        for step in range(STEPS):
            n = iteration * STEPS + step + 1
            for mode, base in own.items():
                add(base, comm.rank, n, mode)
            compute(args.pace / STEPS)
            if step == 0:
                add(common, comm.rank, iteration + 1, "common")
        comm.Barrier()
        line(comm.rank, iteration, "sqlite", n)
    for name, base in [*own.items(), ("common", common)]:
        check(base.execute("pragma integrity_check").fetchone()[0] == "ok", f"{name}: is damaged")
        base.close()
    line(comm.rank, args.iters, "end", args.iters)


main()
