# refused.py: what can be a region in Python, and what cannot. It is run where there is no agent: what raises AgentError got as far as that.
import array
import ctypes
import mmap
import os
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../../build/lib/byssus/memory"))

import byssus


class Pair(ctypes.Structure):
    _fields_ = [("Old", ctypes.c_double), ("New", ctypes.c_double)]


def say(what, thing, member=0, name=None, only=None):
    try:
        byssus.Snapshots(thing if callable(thing) else {1: thing}, member, 1, name).restore(only=only)
        print("%s: there" % what)
    except byssus.Error as e:
        print("%s: %s: %s" % (what, type(e).__name__, e))


cells = array.array("d", range(10))
say("array", cells)
say("bytearray", bytearray(3))
say("slice", memoryview(cells)[2:5])
say("shape", memoryview(bytearray(24)).cast("B").cast("d", [3, 1]))
say("ctypes", (ctypes.c_int * 5)())
say("structures", (Pair * 5)())
say("map", mmap.mmap(-1, 4096))

say("bytes", b"abc")
say("view", memoryview(cells).toreadonly())
say("stride", memoryview(cells)[::2])
say("backward", memoryview(cells)[::-1])
say("objects", (ctypes.py_object * 2)())
say("none", bytearray())
say("list", [1.0, 2.0])
say("number", 5)
say("member", cells, 1)
say("negative", cells, -1)
say("name", cells, 0, "a/b")
say("only", cells, only=[1, 2])
say("function", lambda found: {1: cells})
say("names", lambda found: {1: cells}, 0, "a/b")

held = bytearray(8)
s = byssus.Snapshots({1: held}, 0, 1)
try:
    held.append(1)
    print("held: it grows")
except BufferError:
    print("held: BufferError")
for call in (lambda: s.start(1), lambda: s.commit(), lambda: s.finish()):
    try:
        call()
        print("order: there")
    except byssus.UseError as e:
        print("order: UseError: %s" % e)
del s
held.append(1)
sys.stdout.flush()
s = byssus.Snapshots({1: held}, 0, 1)
child = os.fork()
if not child:
    try:
        s.restore()
    except byssus.UseError as e:
        print("child: UseError: %s" % e, flush=True)
    os._exit(0)
os.waitpid(child, 0)
