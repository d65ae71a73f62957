# test_doc: python3 with mpi4py: pickled objects, buffers without numpy, collectives of objects, a working thread,
# generators, exceptions, dictionaries and files, alive over the whole run.
#
# Same arguments and result lines as the C programs (app.h).
import argparse
import array
import hashlib
import os
import queue
import sys
import threading
import time

from mpi4py import MPI


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


def number(*keys):
    return int.from_bytes(hashlib.sha256(repr(keys).encode()).digest()[:8], "little")


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


def walk(seed, rank):
    """A generator that lives over the whole run."""
    x = number(seed, rank)
    while True:
        x = number(x)
        yield x


def worker(tasks, results):
    while (task := tasks.get()) is not None:
        results.put(hashlib.sha256(task * 50).hexdigest())


def objects(comm, args, iteration):
    """Pickled objects around the ring, received while more are on the way."""
    right, left = (comm.rank + 1) % comm.size, (comm.rank - 1) % comm.size
    mine = {"iteration": iteration, "rank": comm.rank, "data": list(range(iteration % 50)), "text": "x" * (iteration % 999)}
    requests = [comm.isend(mine, dest=right, tag=k) for k in range(3)]
    compute(args.pace)
    total = 0
    for k in (2, 0, 1):
        got = comm.recv(source=left, tag=k)
        check(got == dict(mine, rank=left), f"object {k} from {left}: {got}")
        total += len(got["data"])
    MPI.Request.waitall(requests)
    return total


def buffers(comm, seed, iteration):
    mine = array.array("Q", (number(seed, iteration, comm.rank, k) >> 8 for k in range(20)))
    total = array.array("Q", [0] * 20)
    comm.Allreduce([mine, MPI.UINT64_T], [total, MPI.UINT64_T], op=MPI.SUM)
    for k in range(20):
        want = sum(number(seed, iteration, r, k) >> 8 for r in range(comm.size))
        check(total[k] == want & 0xFFFFFFFFFFFFFFFF, f"Allreduce element {k}")
    data = bytearray(number(seed, iteration) % 5000 + 1)
    if comm.rank == iteration % comm.size:
        data[:] = bytes(k * 7 & 255 for k in range(len(data)))
    comm.Bcast(data, root=iteration % comm.size)
    check(data == bytes(k * 7 & 255 for k in range(len(data))), "Bcast")
    return number(total.tobytes(), bytes(data))


def main():
    parser = argparse.ArgumentParser()
    for name, default in (("iters", 50), ("pace", 20000), ("seconds", 3), ("seed", 1)):
        parser.add_argument("--" + name, type=int, default=default)
    parser.add_argument("--until")
    args = parser.parse_args()
    comm = MPI.COMM_WORLD
    half = comm.Split(comm.rank % 2, comm.rank)
    steps = walk(args.seed, comm.rank)
    tasks, results = queue.Queue(), queue.Queue()
    thread = threading.Thread(target=worker, args=(tasks, results))
    thread.start()
    history, end = {}, 0
    for iteration in range(args.iters):
        if comm.rank == 0:
            print("iter", iteration, flush=True)
        tasks.put(str((args.seed, iteration, comm.rank)).encode())
        parts = [objects(comm, args, iteration), buffers(comm, args.seed, iteration), next(steps)]
        parts.append(tuple(half.allgather((comm.rank, iteration))))
        try:
            history[-1 - iteration]
        except KeyError as missing:
            parts.append(str(missing))
        parts.append(results.get())
        history[iteration] = number(parts)
        end = number(end, history[iteration], len(history))
        line(comm.rank, iteration, "python", history[iteration])
    tasks.put(None)
    thread.join()
    check(os.getpid() > 0 and len(history) == args.iters, "history")
    half.Free()
    line(comm.rank, args.iters, "end", end)


main()
