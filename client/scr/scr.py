"""The calls of SCR for Python programs, with libscr.so beside this file.

    from mpi4py import MPI
    import scr
    scr.init()
    name = scr.have_restart()               # None: there is nothing to restart from
    if name:
        scr.start_restart()
        with open(scr.route_file("state.%d" % rank), "rb") as f: ...
        scr.complete_restart(True)
    scr.start_output("step.100", scr.FLAG_CHECKPOINT)
    with open(scr.route_file("state.%d" % rank), "wb") as f: ...
    scr.complete_output(True)
    scr.finalize()

MPI must be initialised first. All ranks make each call but route_file, in the same order. What fails raises RuntimeError; the reason is
on standard error. complete_output and complete_restart return False where a rank's part is not valid.
"""

import ctypes
import os

FLAG_NONE = 0
FLAG_CHECKPOINT = 1  # the program can restart from it
FLAG_OUTPUT = 2  # a result, which is to come to the prefix directory

MAX_FILENAME = 1024

_lib = ctypes.CDLL(os.path.join(os.path.dirname(os.path.abspath(__file__)), "libscr.so"))
_lib.SCR_Config.restype = ctypes.c_void_p
_free = ctypes.CDLL(None).free
_free.argtypes = [ctypes.c_void_p]
_free.restype = None


def _call(name, *args):
    if getattr(_lib, name)(*args) != 0:
        raise RuntimeError(name + " failed")


def _flag(name):
    flag = ctypes.c_int(0)
    _call(name, ctypes.byref(flag))
    return bool(flag.value)


def config(setting):
    """Asks for a setting ("NAME"): a str, or None. Makes one ("NAME=value") or takes it back ("NAME=") before init, and returns None."""
    at = _lib.SCR_Config(os.fsencode(setting))
    if not at:
        return None
    value = os.fsdecode(ctypes.string_at(at))
    _free(at)
    return value


def init():
    """Begins; MPI must be initialised."""
    _call("SCR_Init")


def finalize():
    """Ends, when all datasets are safe."""
    _call("SCR_Finalize")


def route_file(name):
    """Returns the path under which the file must be opened."""
    path = ctypes.create_string_buffer(MAX_FILENAME)
    _call("SCR_Route_file", os.fsencode(name), path)
    return os.fsdecode(path.value)


def have_restart():
    """Returns the name of the dataset to restart from, or None."""
    flag, name = ctypes.c_int(0), ctypes.create_string_buffer(MAX_FILENAME)
    _call("SCR_Have_restart", ctypes.byref(flag), name)
    return os.fsdecode(name.value) if flag.value else None


def start_restart():
    """Begins to read the dataset that have_restart has found, and returns its name."""
    name = ctypes.create_string_buffer(MAX_FILENAME)
    _call("SCR_Start_restart", name)
    return os.fsdecode(name.value)


def complete_restart(valid=True):
    """Says whether this rank has read its files; returns whether all have."""
    return _lib.SCR_Complete_restart(int(bool(valid))) == 0


def need_checkpoint():
    """Returns whether a checkpoint is due."""
    return _flag("SCR_Need_checkpoint")


def start_output(name, flags):
    """Begins a dataset."""
    _call("SCR_Start_output", os.fsencode(name) if name else None, int(flags))


def complete_output(valid=True):
    """Says whether this rank has written its files; returns whether all have."""
    return _lib.SCR_Complete_output(int(bool(valid))) == 0


def should_exit():
    """Returns whether the program should end."""
    return _flag("SCR_Should_exit")


def current(name):
    """The program has restarted from the dataset of this name by itself."""
    _call("SCR_Current", os.fsencode(name))


def drop(name):
    """Forgets the dataset of this name; its files stay."""
    _call("SCR_Drop", os.fsencode(name))


def delete(name):
    """Removes the dataset of this name with its files."""
    _call("SCR_Delete", os.fsencode(name))
