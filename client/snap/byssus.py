"""Snapshots of a program's memory for Python programs, with libbyssus.so beside this file.

    import array, byssus
    from mpi4py import MPI
    world = MPI.COMM_WORLD
    field, step = array.array("d", bytes(8000)), array.array("q", [0])
    with byssus.Snapshots({1: field, 2: step}, world.rank, world.size) as s:
        s.restore()                          # None: there was no snapshot; else its tag
        while step[0] < 100:
            step[0] += 1                     # the work, in place
            if step[0] % 10 == 0:
                s.start(step[0])
                s.commit()

A program that knows only from the snapshot how much memory it needs gives a function in place of regions: it is called by restore with
{number: bytes} of the newest snapshot, {} if there is none, and returns the regions.

Regions are objects with the buffer protocol that can be written to, and whose bytes lie one behind the other: array.array, bytearray,
memoryview, arrays of numpy and ctypes, memory of mpi4py. They are used in place, and cannot be resized until the snapshots have ended.

What fails raises the Error of its result, in which byssus.h's sentence stands. Timeouts are in seconds, None: however long it takes; what
is not there when the time is up raises NotYet: nothing is lost, and the same call goes on waiting. No MPI is needed.
"""

import ctypes
import os
import re
import time

_OK, _TIMEOUT, _NOTHING = 0, 1, 2

COPY, TRACK, HANDOVER = 0, 1, 2  # how start() gets the bytes of a region: byssus.h


class Error(Exception):
    """A call failed; result is byssus.h's."""

    result = 0


class NotYet(Error, TimeoutError):
    """The time was up; what was begun goes on."""

    result = _TIMEOUT


class UseError(Error):
    """Arguments, the order of calls, or another process than began."""

    result = -1


class FailedError(Error):
    """The snapshot does not count, and the one before stands."""

    result = -2


class RoomError(Error):
    """There is no room for the snapshot on this node: commit it nevertheless, since the others wait, and hear that it does not count."""

    result = -3


class DifferError(Error):
    """Members do not agree, or the snapshot is of other regions."""

    result = -4


class AgentError(Error):
    """There is no agent, or it refuses."""

    result = -5


class SystemFailure(Error):
    """Of the operating system."""

    result = -6


class PeerError(Error):
    """A member has died, and the others go on: the snapshot before stands, and all members call restore."""

    result = -7


class LostError(Error):
    """Snapshots were committed, and more is lost, or damaged, than their redundancy covers."""

    result = -8


_errors = {e.result: e for e in Error.__subclasses__()}


class _Region(ctypes.Structure):
    _fields_ = [("id", ctypes.c_uint32), ("capture", ctypes.c_uint32), ("at", ctypes.c_void_p), ("bytes", ctypes.c_uint64)]


class _Group(ctypes.Structure):
    _fields_ = [("member", ctypes.c_uint32), ("members", ctypes.c_uint32), ("name", ctypes.c_char_p), ("policy", ctypes.c_char_p)]


def _library():
    lib = ctypes.CDLL(os.path.join(os.path.dirname(os.path.abspath(__file__)), "libbyssus.so"))
    d, n, long, tag = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_long, ctypes.c_uint64
    at = ctypes.POINTER(d)
    lib.bys_init.argtypes = [at, ctypes.POINTER(_Region), n, ctypes.POINTER(_Group), long]
    lib.bys_look.argtypes = [at, ctypes.POINTER(_Group), ctypes.POINTER(_Region), ctypes.POINTER(n), ctypes.POINTER(tag), long]
    lib.bys_restore.argtypes = [at, ctypes.POINTER(_Region), n, ctypes.POINTER(_Group), ctypes.POINTER(tag), long]
    lib.bys_start.argtypes = [d, tag]
    lib.bys_commit.argtypes = [d, long]
    lib.bys_finish.argtypes = [at, ctypes.c_int, long]
    lib.bys_epoch.argtypes, lib.bys_epoch.restype = [d], tag
    lib.bys_state.argtypes = [d, ctypes.c_char_p, n, long]
    lib.bys_state_fd.argtypes = [d]
    lib.bys_error.argtypes, lib.bys_error.restype = [d], ctypes.c_char_p
    return lib


_lib = _library()

_LEAVE, _MOST = 256, 4096  # of byssus.h: added to a capture; regions
_SLICE = 200  # milliseconds: between them Python sees signals


def _number(what, value, bits):
    if not isinstance(value, int) or not 0 <= value < 1 << bits:
        raise UseError("%s: found %r, wanted a number from 0, of %d bits" % (what, value, bits))
    return value


def _export(id, thing):
    """Returns a view of a thing's memory, and a ctypes array that lies there. As long as they live, it is not resized."""
    what = "region %r" % (id,)
    try:
        view = memoryview(thing)
    except TypeError:
        raise UseError("%s: found %s, wanted an object with the buffer protocol" % (what, type(thing).__name__)) from None
    if view.readonly:
        raise UseError("%s: found a %s that is read-only, wanted memory that can be written to" % (what, type(thing).__name__))
    if not view.c_contiguous:
        hint = ": its transpose is" if view.f_contiguous else ""
        raise UseError("%s: found elements that do not lie one behind the other in C's order, wanted contiguous memory%s" % (what, hint))
    if "O" in re.sub(":[^:]*:", "", view.format):  # but for names of fields
        raise UseError("%s: found references to objects, wanted elements that have their bytes in themselves" % what)
    if not view.nbytes:
        raise UseError("%s: found no elements, wanted at least 1 byte" % what)
    return view, (ctypes.c_char * view.nbytes).from_buffer(view)


class Snapshots:
    """The snapshots of a group. regions: {number: object}, or a function that makes it; member of members, counted from 0;
    name: of the group; policy: of redundancy ("partner", "xor", ...), None: what byssus run says; capture: {number: TRACK or
    HANDOVER} of regions that are not to be copied by start().

    As a context it ends with finish(), unless the program has said how, or an exception has come.
    """

    def __init__(self, regions, member, members, name=None, policy=None, capture={}):
        self._d, self._views, self._over, self._process = ctypes.c_void_p(), [], False, os.getpid()
        self._capture, self._regions, self._makes = capture, None, regions if callable(regions) else None
        member, members = _number("member", member, 32), _number("members", members, 32)
        self._group = _Group(member, members, *(None if text is None else os.fsencode(text) for text in (name, policy)))
        if not self._makes:
            self._take(regions)

    def _take(self, regions):
        """Takes the memory that is used."""
        table = (_Region * len(regions))()
        try:
            for r, (id, thing) in zip(table, regions.items()):
                self._views.append(_export(id, thing))
                held = self._views[-1][1]
                r.id, r.at, r.bytes = _number("number of a region", id, 32), ctypes.addressof(held), ctypes.sizeof(held)
                r.capture = _number("capture of region %d" % id, self._capture.get(id, COPY), 8)
            if not set(self._capture) <= set(regions):
                raise UseError("capture: found %r, wanted numbers of regions" % sorted(set(self._capture) - set(regions), key=str))
        except Error:
            self._release()
            raise
        self._regions = table

    def __enter__(self):
        return self

    def __exit__(self, kind, *_):
        if kind is None and self._d:
            self.finish()

    def init(self, timeout=None):
        """Begins without looking for a snapshot: all members call it, or restore."""
        if self._regions is None:
            self._take(self._makes({}))
        self._wait(
            lambda ms: _lib.bys_init(ctypes.byref(self._d), self._regions, len(self._regions), ctypes.byref(self._group), ms), timeout
        )

    def restore(self, timeout=None, only=None):
        """Begins; then the regions have the bytes of the newest snapshot, whose tag is returned. None: there is none.

        only: the numbers of those that are read, where the others are to stay as they are.
        """
        end = None if timeout is None else time.monotonic() + timeout
        if self._regions is None:
            self._take(self._makes(self._look(timeout)))
        if end is not None:
            timeout = max(0, end - time.monotonic())
        tag, numbers = ctypes.c_uint64(), [r.id for r in self._regions]
        if not set(only or ()) <= set(numbers):
            raise UseError("only: found %r, wanted numbers of regions" % sorted(set(only) - set(numbers), key=str))
        for r in self._regions:
            r.capture = r.capture & ~_LEAVE | (_LEAVE if only is not None and r.id not in only else 0)
        ask = lambda ms: _lib.bys_restore(
            ctypes.byref(self._d), self._regions, len(self._regions), ctypes.byref(self._group), ctypes.byref(tag), ms
        )
        return tag.value if self._wait(ask, timeout) == _OK else None

    def _look(self, timeout):
        """What this member has in the newest snapshot: {number: bytes}."""
        found, n, tag = (_Region * _MOST)(), ctypes.c_size_t(_MOST), ctypes.c_uint64()
        ask = lambda ms: _lib.bys_look(
            ctypes.byref(self._d), ctypes.byref(self._group), found, ctypes.byref(n), ctypes.byref(tag), ms
        )
        self._wait(ask, timeout)
        return {r.id: r.bytes for r in found[: n.value]}

    def start(self, tag):
        """Copies the regions, which may be written to again then, but for those that are handed over. The tag is equal on all members: a step, say."""
        self._check(_lib.bys_start(self._begun(), _number("tag", tag, 64)))

    def commit(self, timeout=None):
        """Makes what was started the snapshot to restore: all members call it."""
        self._begun()
        self._wait(lambda ms: _lib.bys_commit(self._d, ms), timeout)

    def finish(self, keep=False, timeout=None):
        """Ends: all members call it. keep: the newest snapshot is copied to the job's store, and a later run goes on from it."""
        self._begun()
        try:
            self._wait(lambda ms: _lib.bys_finish(ctypes.byref(self._d), int(bool(keep)), ms), timeout)
        finally:
            if not self._d:
                self._over = True
                self._release()

    def epoch(self):
        """Numbers the time from one beginning, or restoring, of all members to the next."""
        return _lib.bys_epoch(self._begun())

    def states(self, timeout=0):
        """Returns which members live, a bool for each, when that has changed since the last such call, or this is the first.

        Else it raises NotYet.
        """
        self._begun()
        states = ctypes.create_string_buffer(self._group.members)
        ask = lambda ms: self._said(_lib.bys_state(self._d, states, self._group.members, ms))
        self._wait(ask, timeout)
        return [s == 0 for s in states.raw]

    def fileno(self):
        """Returns a descriptor that is readable when states has something to say, for select."""
        return _lib.bys_state_fd(self._begun())

    def _said(self, result):
        """Of states, which fills no sentence."""
        if result < 0:
            raise _errors[result]("the members' states are not known")
        return result

    def _here(self):
        if self._process != os.getpid():
            raise UseError("found a child after fork, wanted the process that began")

    def _begun(self):
        self._here()
        if not self._d:
            found = "snapshots that have ended" if self._over else "nothing that has begun"
            raise UseError("found %s, wanted restore or init first" % found)
        return self._d

    def _release(self):
        """Lets go of the memory."""
        while self._views:
            view, held = self._views.pop()
            del held
            view.release()

    def _check(self, result):
        if result < 0:
            raise _errors[result](os.fsdecode(_lib.bys_error(self._d)))
        return result

    def _wait(self, ask, timeout):
        self._here()
        if self._over:
            raise UseError("found snapshots that have ended, wanted others of the same regions")
        end = None if timeout is None else time.monotonic() + timeout
        while True:
            left = _SLICE if end is None else min(_SLICE, max(0, round((end - time.monotonic()) * 1000)))
            result = self._check(ask(left))
            if result != _TIMEOUT:
                return result
            if end is not None and time.monotonic() >= end:
                raise NotYet("not yet; what was begun goes on")
