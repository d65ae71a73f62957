#!/usr/bin/python3
"""A small agent for one rank: starts a program under byssus-rank, takes checkpoints, kills it, restarts it.

  agent.py [options] -- program arguments...
    --rank PATH      the byssus-rank to run
    --at T,T,...     seconds after each (re)start at which a checkpoint is taken; a T that is no number names a file:
                     the checkpoint is taken when it appears, and then the file is removed
    --mode MODE      kill: SIGKILL while it waits after the image, restart (default); go: only checkpoint; exit: EXIT_AFTER, restart
    --dir DIR        where images go (default: a new directory below /dev/shm)
    --writers N      writer threads
    --lazy           restart lazily
    --again WORDS    a command that starts what is restarted, in place of the bare rank: other surroundings
    --confined       no userfaultfd(2), kcmp(2), unshare(2) and prctl(PR_SET_MM), as in many containers
    --steal FILE     before a restart somebody else locks the file, wholly and in each way, and writes to it
    --lend FILE      the same by a process that ends when the rank says that it waits for it
    --locked FILE    when the rank waits for others before it goes on, the file is locked, or has a lease
    --old-kernel     as on a kernel before 6.5, which does not tell whether an eventfd is a semaphore
    --drop           what cannot be saved is left out of the image (--policy drop)
    --patient        after a checkpoint that is refused the program goes on (default: it is killed, exit code 3)
    --term           while the threads stand still somebody sends SIGTERM and SIGHUP to the program
    --end            after a restart the job ends, which is said while the program claims a file or memory
    --storm N        first begin N checkpoints and cancel each while threads are being stopped, as fast as possible
    --times          print the times of each checkpoint and restart on stderr
The exit code is the program's (128 + signal); standard input, output and error are the program's own.
It speaks the socket protocol of internal/wire/abi, as an agent does.
"""
import argparse, fcntl, os, select, shlex, shutil, signal, socket, struct, subprocess, sys, tempfile, threading, time

sys.dont_write_bytecode = True
import kernel

HEADER = struct.Struct("<IHHIIQII")
MAGIC = 0x53535942
HELLO, CLOCKS, RAISE, MET, WAITING, STOPPED, IMAGE, RESUMED, RESTORED, FAILED = range(1, 11)
HAND, CLAIM, HANDED, END = 15, 18, 74, 75
HERE, CLAIMED = 3, 4
RESTORED_ALL = 3        # the meeting after which ranks go on
WELCOME, REFUSE, REQUEST, TARGETS, STOP, DRAIN, RESUME, CANCEL, EXIT = range(64, 73)


class Gone(Exception):
    pass


class Refused(Exception):
    pass


class Rank:
    last = None
    term = False
    end = False
    locked = None
    lender = None

    def __init__(self, argv, env, rundir, log):
        self.log = log
        self.met = []
        self.path = os.path.join(rundir, "agent.sock")
        self.page = os.path.join(rundir, "page.0")
        with open(self.page, "wb") as f:
            f.truncate(4096)
        if os.path.exists(self.path):
            os.unlink(self.path)
        s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        s.bind(self.path)
        s.listen(1)
        self.epoch = 0
        self.proc = subprocess.Popen(argv, env=dict(env, BYSSUS_AGENT=self.path, BYSSUS_RUNDIR=rundir),
                                     stderr=subprocess.PIPE if Rank.lender else None)
        if Rank.lender:
            threading.Thread(target=relay, args=(self.proc.stderr, Rank.lender), daemon=True).start()
        Rank.last = self.proc
        self.listener = s
        self.greet()

    def greet(self):
        """Waits for HELLO: of a new process, or of one that has become another program."""
        self.listener.settimeout(0.05)
        while True:
            try:
                self.sock = self.listener.accept()[0]
                break
            except socket.timeout:
                if self.proc.poll() is not None:
                    raise Gone()
        self.expect(HELLO)
        self.send(WELCOME, struct.pack("<QII", 0, 1, 0))

    def wait_for(self, seconds):
        """The exit status when the process ends within that time, else None; a second HELLO is answered."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            if select.select([self.listener], [], [], 0.01)[0]:
                self.greet()
            if self.proc.poll() is not None:
                return self.proc.returncode
        return None

    def wait_for_file(self, path):
        """The exit status when the process ends before the file appears, else None."""
        while not os.path.exists(path):
            code = self.wait_for(0.01)
            if code is not None:
                return code
        return None

    def send(self, kind, body=b""):
        try:
            self.sock.send(HEADER.pack(MAGIC, 1, kind, 0, 0, self.epoch, len(body), 0) + body)
        except OSError:
            raise Gone()

    def receive(self, timeout=60):
        """The next message that is no claim and no meeting; both are granted, since there is no other rank."""
        while True:
            kind, body = self.packet(timeout)
            if kind == HAND:
                self.meet(body)
                continue
            if kind != CLAIM:
                return kind, body
            if Rank.end:
                self.send(END)
            self.send(HANDED, struct.pack("<II16s", CLAIMED, 0, body[:16]))

    def meet(self, body):
        what, _, number = struct.unpack("<IIQ", body[:16])
        if what != HERE:
            raise Exception("an object for other ranks, of which there are none")
        if number == RESTORED_ALL and self.locked and not held(self.locked):
            raise Exception("%s is not locked when others may go on" % self.locked)
        self.met.append(number)
        self.send(HANDED, body)

    def packet(self, timeout):
        self.sock.settimeout(timeout)
        try:
            data = self.sock.recv(300000)
        except socket.timeout:
            raise Exception("no message within %g s" % timeout)
        except OSError:
            raise Gone()
        if not data:
            raise Gone()
        h = HEADER.unpack(data[:HEADER.size])
        return h[2], data[HEADER.size:]

    def expect(self, kind, timeout=60):
        while True:
            got, body = self.receive(timeout)
            if got == kind:
                return body
            if got == FAILED:
                raise Exception("rank failed: " + body.decode(errors="replace"))

    def storm(self, n):
        """Stops that are given up at every moment: at once, while threads come, when all have, while they leave."""
        for i in range(n):
            self.epoch += 1
            self.send(REQUEST)
            self.expect(CLOCKS)
            self.send(TARGETS, struct.pack("<QQ", 1, 0))
            self.expect(MET)
            self.send(STOP)
            if i % 4 == 1:
                time.sleep(i % 50 * 2e-5)
            elif i % 4 == 2:
                self.expect(STOPPED)
            self.send(CANCEL)
            self.expect(RESUMED)
            if i % 500 == 499:
                self.log("storm: %d stops" % (i + 1))

    def checkpoint(self, directory, number, writers=0, flags=0):
        """Returns seconds: stop, write, and bytes."""
        self.epoch += 1
        t0 = time.monotonic()
        self.send(REQUEST)
        self.expect(CLOCKS)
        self.send(TARGETS, struct.pack("<QQ", 1, 0))
        self.expect(MET)
        self.send(STOP)
        body = self.expect(STOPPED)
        stop_ns, threads, refusals, passing, _ = struct.unpack("<QIIII", body[:24])
        if refusals:
            self.send(CANCEL)
            self.expect(RESUMED)
            raise Refused(body[24:].decode(errors="replace"))
        if self.term:
            os.kill(self.proc.pid, signal.SIGTERM)
            os.kill(self.proc.pid, signal.SIGHUP)
        os.makedirs(directory, exist_ok=True)
        self.send(DRAIN, struct.pack("<II1000sQ16sQ", flags, writers, directory.encode(), number, b"test-job", 0))
        body = self.expect(IMAGE, 600)
        status, nfiles, size, logical, stop_ns, drain_ns, write_ns, crc = struct.unpack("<IIQQQQQQ", body[:56])
        if status:
            self.expect(RESUMED)
            raise Refused("image: " + body[56:].decode(errors="replace").split(": ", 1)[1])
        if not flags:
            stall = struct.unpack("<Q", self.expect(RESUMED))[0]
        else:
            stall = 0
        self.log("checkpoint %d: %d threads, stop %.2f ms, write %.1f ms, stall %.1f ms, %.1f MiB (%.1f logical), all %.1f ms" % (
            number, threads, stop_ns / 1e6, write_ns / 1e6, stall / 1e6, size / 2**20, logical / 2**20, (time.monotonic() - t0) * 1e3))

    def restored(self):
        read_ns, restore_ns, size = struct.unpack("<QQQ", self.expect(RESTORED, 600))
        if self.met[-1:] != [RESTORED_ALL]:
            raise Exception("the rank goes on without waiting for others, after the meetings %s" % self.met)
        self.log("restart: read %.1f ms, rest %.1f ms, %.1f MiB" % (read_ns / 1e6, restore_ns / 1e6, size / 2**20))

    def wait(self, timeout=None):
        return self.proc.wait(timeout)

    def kill(self):
        os.kill(self.proc.pid, signal.SIGKILL)
        self.proc.wait()
        self.sock.close()
        self.listener.close()


def exit_code(r):
    return r if r >= 0 else 128 - r


def checkpoint_unless_child(rank, o, t, directory, number):
    """A child process is a matter of moments: it is waited for, but not for ever, and not when the program asks."""
    for left in reversed(range(100 if isinstance(t, float) else 1)):
        try:
            return rank.checkpoint(directory, number, o.writers, 0 if o.mode == "go" else 1)
        except Refused as e:
            if "child process" not in str(e) or not left:
                raise
            time.sleep(0.02)


def steal(path):
    """Locks held by this process until it ends: the lock of flock(2), and one of fcntl(2). Who writes to a file cannot lose it to a lease."""
    f = os.open(path, os.O_RDWR)
    fcntl.flock(f, fcntl.LOCK_EX)
    fcntl.lockf(f, fcntl.LOCK_EX)


def lend(path):
    """A process that holds them, from when this returns until it ends."""
    r, w = os.pipe()
    pid = os.fork()
    if pid == 0:
        steal(path)
        os.write(w, b"x")
        os.close(w)
        while True:
            signal.pause()
    os.close(w)
    os.read(r, 1)
    os.close(r)
    return pid


def relay(lines, lender):
    """Hands on what a rank says, and ends the lender when the rank waits for it."""
    for line in lines:
        sys.stderr.buffer.write(line)
        sys.stderr.flush()
        if b": waits for " in line:
            os.kill(lender, signal.SIGKILL)


def held(path):
    """Whether somebody has a lock, or a lease, of any kind on it."""
    ino = os.stat(path).st_ino
    with open("/proc/locks") as f:
        return any(line.split()[-3].endswith(":%d" % ino) for line in f)


def moment(text):
    """Seconds, or the path of a file."""
    try:
        return float(text)
    except ValueError:
        return text


def wait_for_moment(rank, t):
    return rank.wait_for(t) if isinstance(t, float) else rank.wait_for_file(t)


def done(t):
    """Tells a program that has asked by a file, and waits."""
    if isinstance(t, str):
        os.unlink(t)


def confine():
    """Lets calls that containers deny fail with EPERM from here on, in children too."""
    userfaultfd, kcmp, unshare, prctl, set_mm = 323, 312, 272, 157, 35
    kernel.become([kernel.deny(userfaultfd), kernel.deny(kcmp), kernel.deny(unshare), kernel.deny(prctl, set_mm)])


def main():
    p = argparse.ArgumentParser()
    here = os.path.dirname(os.path.abspath(__file__))
    p.add_argument("--rank", default=os.path.join(here, "../../build/lib/byssus/byssus-rank-none"))
    p.add_argument("--at", default="")
    p.add_argument("--mode", default="kill", choices=["kill", "go", "exit"])
    p.add_argument("--dir")
    p.add_argument("--writers", type=int, default=0)
    p.add_argument("--lazy", action="store_true")
    p.add_argument("--again", default="")
    p.add_argument("--confined", action="store_true")
    p.add_argument("--steal")
    p.add_argument("--lend")
    p.add_argument("--locked")
    p.add_argument("--old-kernel", action="store_true")
    p.add_argument("--drop", action="store_true")
    p.add_argument("--patient", action="store_true")
    p.add_argument("--term", action="store_true")
    p.add_argument("--end", action="store_true")
    p.add_argument("--storm", type=int, default=0)
    p.add_argument("--times", action="store_true")
    p.add_argument("app", nargs=argparse.REMAINDER)
    o = p.parse_args()
    app = o.app[1:] if o.app[:1] == ["--"] else o.app
    log = (lambda s: print("agent: " + s, file=sys.stderr)) if o.times else (lambda s: None)
    Rank.term = o.term
    Rank.end = o.end
    Rank.locked = o.locked
    env = dict(os.environ)
    if o.lazy:
        env["BYSSUS_LAZY"] = "1"
    if o.drop:
        env["BYSSUS_POLICY"] = "drop"
    if o.old_kernel:
        env["BYSSUS_OLD_KERNEL"] = "1"
    if o.confined:
        confine()
        env["CONFINED"] = "1"
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(124))
    rundir = tempfile.mkdtemp(prefix="byssus-run.")
    images = o.dir or tempfile.mkdtemp(prefix="byssus-ckpt.", dir="/dev/shm")
    rank = None
    try:
        rank = Rank([o.rank, "--"] + app, env, rundir, log)
        rank.storm(o.storm)
        for n, t in enumerate(moment(x) for x in o.at.split(",") if x):
            code = wait_for_moment(rank, t)
            if code is not None:
                return exit_code(code)
            d = os.path.join(images, "ckpt.%06d" % n)
            try:
                checkpoint_unless_child(rank, o, t, d, n)
            except Refused as e:
                if not o.patient:
                    raise
                print("agent: refused: " + str(e), file=sys.stderr)
                done(t)
                continue
            if o.mode == "go":
                done(t)
                continue
            if o.mode == "exit":
                rank.send(EXIT)
                code = rank.wait(10)
                if code != 123:
                    raise Exception("exit code %d after EXIT, want 123" % code)
                rank.sock.close()
            else:
                rank.kill()
            if o.steal:
                steal(o.steal)
            if o.lend:
                Rank.lender = lend(o.lend)
            rank = Rank(shlex.split(o.again) + [o.rank, "--restart", d], env, rundir, log)
            rank.restored()
            rank.storm(o.storm)
            done(t)
            if n > 1:
                shutil.rmtree(os.path.join(images, "ckpt.%06d" % (n - 2)), ignore_errors=True)
        return exit_code(rank.wait_for(1e9))
    except Gone:                    # it has ended, or has become another program meanwhile
        return exit_code(rank.wait_for(1e9)) if rank else 1
    except Refused as e:
        print("agent: refused: " + str(e), file=sys.stderr)
        rank.kill()
        return 3
    finally:
        if Rank.last and Rank.last.poll() is None:
            os.kill(Rank.last.pid, signal.SIGKILL)
            Rank.last.wait()
        shutil.rmtree(rundir, ignore_errors=True)
        if not o.dir:
            shutil.rmtree(images, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
