"""Every call of SCR from Python. MPI is loaded as an extension module loads it: for itself alone. One line a rank and call."""
import ctypes
import os
import sys

mpi = ctypes.CDLL(sys.argv[1], mode=os.RTLD_LOCAL | os.RTLD_NOW)
mpi.MPI_Init(None, None)
import scr

me = int(os.environ.get("PMI_RANK") or os.environ.get("OMPI_COMM_WORLD_RANK"))


def say(call, with_=""):
    sys.stdout.write("%d %s %s\n" % (me, call, with_))
    sys.stdout.flush()


def fails(call, *args):
    try:
        call(*args)
    except RuntimeError as e:
        return str(e)


say("set", scr.config("SCR_DEBUG=0"))
say("get", scr.config("SCR_DEBUG"))
say("unset", scr.config("SCR_DEBUG="))
say("get", scr.config("SCR_DEBUG"))
say("init", scr.init())
say("should_exit", scr.should_exit())
say("have_restart", scr.have_restart())
if scr.have_restart():
    say("start_restart", scr.start_restart())
    with open(scr.route_file("steps/state.%d" % me)) as f:
        say("read", f.read())
    say("missing", fails(scr.route_file, "missing"))
    say("complete_restart", scr.complete_restart(True))
say("need_checkpoint", scr.need_checkpoint())
say("start_output", scr.start_output("first", scr.FLAG_CHECKPOINT | scr.FLAG_OUTPUT))
with open(scr.route_file("steps/state.%d" % me), "w") as f:
    f.write("what was rank %d" % me)
say("complete_output", scr.complete_output(True))
say("start_output", scr.start_output(None, scr.FLAG_OUTPUT))
say("complete_output", scr.complete_output(me != 1))
say("current", scr.current("first"))
say("drop", fails(scr.drop, "none"))
say("delete", fails(scr.delete, "none"))
say("finalize", scr.finalize())
mpi.MPI_Finalize()
