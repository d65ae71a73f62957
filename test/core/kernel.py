#!/usr/bin/python3
"""Another kernel than this one, as far as system calls show it (seccomp(2), x86-64).

  kernel.py RULE... -- command arguments...     runs a command that finds it so; the exit code is the command's
    NR=ERRNO            the call with this number fails with this errno; 0: it returns 0 and does nothing
    NR:OPTION=ERRNO     only where its first argument is this one
    core-scheduling     prctl(PR_SCHED_CORE) makes and tells cookies of threads

Numbers are decimal or 0x. It is for what a kernel lacks, and for what containers deny.
"""
import ctypes, errno, fcntl, os, select, struct, subprocess, sys

LOAD, IF_EQUAL, GIVE = 0x20, 0x15, 0x06
NUMBER, FIRST_ARGUMENT = 0, 16          # offsets in struct seccomp_data
ERRNO, ASK, ALLOW = 0x00050000, 0x7FC00000, 0x7FFF0000
PRCTL, NO_NEW_PRIVILEGES, SCHED_CORE = 157, 38, 62
SECCOMP, SET_FILTER, NEW_LISTENER = 317, 1, 8
RECEIVE, ANSWER = 0xC0502100, 0xC0182101


def become(rules, flags=0):
    """Lets calls have these results from here on, in children too. Rules: (number, first argument or None, result)."""
    text = []
    for number, option, result in rules:
        give = [(GIVE, 0, 0, result)]
        if option is not None:
            give = [(LOAD, 0, 0, FIRST_ARGUMENT), (IF_EQUAL, 0, 1, option)] + give
        text += [(LOAD, 0, 0, NUMBER), (IF_EQUAL, 0, len(give), number)] + give
    text.append((GIVE, 0, 0, ALLOW))
    program = ctypes.create_string_buffer(b"".join(struct.pack("<HBBI", *i) for i in text))
    filter = ctypes.create_string_buffer(struct.pack("<HxxxxxxQ", len(text), ctypes.addressof(program)))
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(NO_NEW_PRIVILEGES, 1, 0, 0, 0) == 0:
        listener = libc.syscall(SECCOMP, SET_FILTER, flags, filter)
        if listener >= 0:
            return listener
    raise OSError(ctypes.get_errno(), "seccomp")


def deny(number, option=None):
    """A rule: the call fails with EPERM."""
    return number, option, ERRNO | errno.EPERM


def rule(word):
    if word == "core-scheduling":
        return PRCTL, SCHED_CORE, ASK
    call, result = word.split("=")
    number, _, option = call.partition(":")
    return int(number, 0), int(option, 0) if option else None, ERRNO | int(result, 0)


def core_scheduling(cookies, caller, args):
    """The errno of prctl(PR_SCHED_CORE, command, thread, kind, where) for the thread caller; GET writes into its memory."""
    get, create, kind_thread = 0, 1, 0
    _, command, thread, kind, where = args[:5]
    thread = thread or caller
    if command == get and kind == kind_thread and where % 8 == 0:
        with open("/proc/%d/mem" % caller, "r+b", buffering=0) as memory:
            memory.seek(where)
            memory.write(struct.pack("<Q", cookies.get(thread, 0)))
    elif command == create and kind == kind_thread:
        cookies[thread] = 0xC00C1E000 + len(cookies)
    else:
        return errno.EINVAL
    return 0


def serve(listener, command):
    """Answers the calls that the kernel asks about until the command has ended, and tells its exit code."""
    child = subprocess.Popen(command)
    ended = os.pidfd_open(child.pid)
    cookies = {}
    while True:
        ready = select.select([listener, ended], [], [])[0]
        if listener not in ready:
            code = child.wait()
            return code if code >= 0 else 128 - code
        call = bytearray(80)
        try:
            fcntl.ioctl(listener, RECEIVE, call)
            id, caller, _, _, _, _, *args = struct.unpack("<QIIiIQ6Q", call)
            fcntl.ioctl(listener, ANSWER, struct.pack("<QqiI", id, 0, -core_scheduling(cookies, caller, args), 0))
        except FileNotFoundError:
            pass    # the caller was killed meanwhile


def main():
    end = sys.argv.index("--")
    rules, command = [rule(word) for word in sys.argv[1:end]], sys.argv[end + 1:]
    if any(result == ASK for _, _, result in rules):
        return serve(become(rules, NEW_LISTENER), command)
    become(rules)
    os.execvp(command[0], command)


if __name__ == "__main__":
    sys.exit(main())
