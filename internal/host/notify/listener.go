package notify

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// The kernel's structures (linux/seccomp.h), and the requests that take them.
type (
	data struct {
		Nr   int32
		Arch uint32
		IP   uint64
		Args [6]uint64
	}
	notification struct {
		ID    uint64
		PID   uint32
		Flags uint32
		Data  data
	}
	response struct {
		ID    uint64
		Val   int64
		Error int32
		Flags uint32
	}
	addition struct {
		ID       uint64
		Flags    uint32
		Fd       uint32
		NewFd    uint32
		NewFlags uint32
	}
)

const (
	ioctlReceive = 0xc0502100
	ioctlSend    = 0xc0182101
	ioctlValid   = 0x40082102
	ioctlAdd     = 0x40182103
)

// Listener hears the calls of the processes of one filter. Its methods may be called by several goroutines.
type Listener struct {
	file   *os.File
	raw    syscall.RawConn
	wg     sync.WaitGroup
	closed atomic.Bool
}

func newListener(f *os.File) (*Listener, error) {
	defer f.Close()
	fd, err := unix.FcntlInt(f.Fd(), unix.F_DUPFD_CLOEXEC, 0)
	if err == nil {
		err = unix.SetNonblock(fd, true) // os.NewFile waits for it by itself then
	}
	if err != nil {
		return nil, fmt.Errorf("notify: %w", err)
	}
	l := &Listener{file: os.NewFile(uintptr(fd), "listener")}
	if l.raw, err = l.file.SyscallConn(); err != nil {
		l.file.Close()
		return nil, fmt.Errorf("notify: %w", err)
	}
	return l, nil
}

// Serve hands each call to f, on a goroutine of its own, until all processes are gone or the listener is closed. f answers it.
func (l *Listener) Serve(f func(*Call)) error {
	defer l.wg.Wait()
	for {
		n, err := l.receive()
		switch {
		case err == io.EOF || err != nil && l.closed.Load():
			return nil
		case err != nil:
			return err
		}
		l.wg.Go(func() {
			if c := l.decode(n); c != nil {
				f(c)
			}
		})
	}
}

// Close ends Serve.
func (l *Listener) Close() {
	l.closed.Store(true)
	l.file.Close()
}

// receive waits for the next call.
func (l *Listener) receive() (*notification, error) {
	var n notification
	var got error
	err := l.raw.Read(func(fd uintptr) bool {
		p := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
		if _, err := unix.Poll(p, 0); err != nil && err != unix.EINTR {
			got = err
			return true
		}
		switch {
		case p[0].Revents&unix.POLLIN != 0:
			n = notification{} // the kernel wants zeros
			got = ioctl(fd, ioctlReceive, unsafe.Pointer(&n))
			return got != unix.ENOENT && got != unix.EINTR // else who called has gone meanwhile
		case p[0].Revents&(unix.POLLHUP|unix.POLLERR) != 0:
			got = io.EOF
			return true
		}
		return false
	})
	if err == nil {
		err = got
	}
	if err != nil && err != io.EOF {
		err = fmt.Errorf("notify: %w", err)
	}
	return &n, err
}

func ioctl(fd, request uintptr, arg unsafe.Pointer) error {
	if _, _, e := unix.Syscall(unix.SYS_IOCTL, fd, request, uintptr(arg)); e != 0 {
		return e
	}
	return nil
}

// control performs a request that does not wait.
func (l *Listener) control(request uintptr, arg unsafe.Pointer) error {
	var got error
	err := l.raw.Control(func(fd uintptr) { got = ioctl(fd, request, arg) })
	return errors.Join(err, got)
}

// Op is what a call does.
type Op int

// What is heard of.
const (
	Open Op = iota
	Rename
	Link
	Truncate
	Symlink
)

// Name is a file's: the directory, as the kernel calls it, and the last part of the path.
type Name struct{ Dir, Base string }

// Path is the whole name.
func (n Name) Path() string { return filepath.Join(n.Dir, n.Base) }

// Call waits to be answered, by one of its methods.
type Call struct {
	Op    Op
	PID   int
	From  Name   // of Rename and Link: what it is called now
	Text  string // of Symlink: where it leads
	To    Name   // the file; of Rename and Link what it is to be called
	Flags int    // of open(2), renameat2(2) or linkat(2)
	Mode  uint32 // of a file that is made, before the process's mask
	l     *Listener
	id    uint64
}

// narrows are flags of openat2(2) that let fewer names be resolved, and none in another way.
const narrows = unix.RESOLVE_NO_XDEV | unix.RESOLVE_NO_MAGICLINKS | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_BENEATH

// decode makes a call of what the kernel tells; nil: it is answered already, since it is none that anybody would lead elsewhere.
func (l *Listener) decode(n *notification) *Call {
	c := &Call{PID: int(n.PID), l: l, id: n.ID}
	a := n.Data.Args
	const here = uint64(0xffffff9c) // AT_FDCWD
	at := [2]uint64{here, here}
	var path [2]uint64 // the second is of calls with two
	switch n.Data.Nr {
	case unix.SYS_OPEN:
		path[0], c.Flags, c.Mode = a[0], int(uint32(a[1])), uint32(a[2])
	case unix.SYS_CREAT:
		path[0], c.Flags, c.Mode = a[0], unix.O_CREAT|unix.O_WRONLY|unix.O_TRUNC, uint32(a[1])
	case unix.SYS_OPENAT:
		at[0], path[0], c.Flags, c.Mode = a[0], a[1], int(uint32(a[2])), uint32(a[3])
	case unix.SYS_OPENAT2:
		at[0], path[0] = a[0], a[1]
		how, err := c.read(a[2], 24)
		if err != nil || a[3] < 24 || *(*uint64)(unsafe.Pointer(&how[16]))&^narrows != 0 { // it resolves names in a way of its own
			c.Continue()
			return nil
		}
		c.Flags, c.Mode = int(*(*uint64)(unsafe.Pointer(&how[0]))), uint32(*(*uint64)(unsafe.Pointer(&how[8])))
	case unix.SYS_TRUNCATE:
		c.Op, path[0] = Truncate, a[0]
	case unix.SYS_RENAME:
		c.Op, path = Rename, [2]uint64{a[0], a[1]}
	case unix.SYS_RENAMEAT, unix.SYS_RENAMEAT2:
		c.Op, at, path = Rename, [2]uint64{a[0], a[2]}, [2]uint64{a[1], a[3]}
	case unix.SYS_SYMLINK:
		c.Op, path[0], c.Text = Symlink, a[1], c.target(a[0])
	case unix.SYS_SYMLINKAT:
		c.Op, at[0], path[0], c.Text = Symlink, a[1], a[2], c.target(a[0])
	case unix.SYS_LINK:
		c.Op, path = Link, [2]uint64{a[0], a[1]}
	case unix.SYS_LINKAT:
		c.Op, at, path, c.Flags = Link, [2]uint64{a[0], a[2]}, [2]uint64{a[1], a[3]}, int(uint32(a[4]))
	}
	if n.Data.Nr == unix.SYS_RENAMEAT2 {
		c.Flags = int(uint32(a[4]))
	}
	ok := true
	for i, name := range []*Name{&c.To, &c.From} {
		if path[i] != 0 && ok {
			*name, ok = c.name(int(int32(at[i])), path[i])
			ok = ok || i == 0 && c.Op == Link && c.Flags&unix.AT_EMPTY_PATH != 0 // a file that has no name yet is linked by its descriptor
		}
	}
	if path[1] != 0 {
		c.From, c.To = c.To, c.From
	}
	if !ok || !c.valid() {
		c.Continue()
		return nil
	}
	return c
}

// valid says whether the process still waits: what was read of it was its own, then.
func (c *Call) valid() bool { return c.l.control(ioctlValid, unsafe.Pointer(&c.id)) == nil }

// read reads memory of the process: as much as there is, up to n bytes.
func (c *Call) read(addr uint64, n int) ([]byte, error) {
	buf := make([]byte, n)
	local := []unix.Iovec{{Base: &buf[0], Len: uint64(n)}}
	got, err := unix.ProcessVMReadv(c.PID, local, []unix.RemoteIovec{{Base: uintptr(addr), Len: n}}, 0)
	if err == nil && got < n {
		err = io.ErrUnexpectedEOF
	}
	return buf[:max(got, 0)], err
}

// text reads a string; false: it is none that could be a path.
func (c *Call) text(addr uint64) (string, bool) {
	const page = 4096
	var all []byte
	for len(all) < unix.PathMax {
		piece, err := c.read(addr+uint64(len(all)), page-int((addr+uint64(len(all)))%page))
		if i := bytes.IndexByte(piece, 0); i >= 0 {
			return string(append(all, piece[:i]...)), true
		}
		if err != nil {
			break
		}
		all = append(all, piece...)
	}
	return "", false
}

// target is where a link is to lead; empty: nowhere.
func (c *Call) target(addr uint64) string {
	text, ok := c.text(addr)
	if !ok {
		return ""
	}
	return text
}

// name is what a path means to the process; false: no file that could be made or renamed.
func (c *Call) name(at int, addr uint64) (Name, bool) {
	path, ok := c.text(addr)
	base := path[strings.LastIndexByte(path, '/')+1:]
	if !ok || base == "" || base == "." || base == ".." {
		return Name{}, false
	}
	dir := path[:len(path)-len(base)]
	proc := "/proc/" + strconv.Itoa(c.PID)
	switch {
	case strings.HasPrefix(dir, "/"):
		dir = c.absolute(dir)
	case at == unix.AT_FDCWD:
		dir = proc + "/cwd/" + dir
	default:
		dir = proc + "/fd/" + strconv.Itoa(at) + "/" + dir
	}
	real, err := realDir(dir)
	return Name{real, base}, err == nil
}

// absolute is a path that means here what another means to the process: its own entry in /proc is another's here.
func (c *Call) absolute(path string) string {
	proc := "/proc/" + strconv.Itoa(c.PID)
	for own, here := range map[string]string{"/proc/self/": "/", "/proc/thread-self/": "/", "/dev/fd/": "/fd/"} {
		if rest, ok := strings.CutPrefix(path, own); ok {
			return proc + here + rest
		}
	}
	return proc + "/root" + path
}

// realDir is how the kernel calls a directory.
func realDir(dir string) (string, error) {
	fd, err := unix.Open(dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return "", err
	}
	defer unix.Close(fd)
	return os.Readlink("/proc/self/fd/" + strconv.Itoa(fd))
}

// Follow is what another path means to the process, seen from the directory of a name.
func (c *Call) Follow(n Name, path string) (Name, error) {
	if filepath.IsAbs(path) {
		path = c.absolute(path)
	} else {
		path = n.Dir + "/" + path
	}
	dir, err := realDir(filepath.Dir(path))
	if err == nil && strings.HasPrefix(n.Dir, "/proc/") { // descriptors say so of a file that has been removed
		_, err = os.Lstat(filepath.Join(dir, filepath.Base(path)))
	}
	return Name{dir, filepath.Base(path)}, err
}

// Mask is the process's mask for modes of files that it makes.
func (c *Call) Mask() uint32 {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", c.PID))
	_, rest, ok := strings.Cut(string(text), "\nUmask:\t")
	value, _, _ := strings.Cut(rest, "\n")
	mask, perr := strconv.ParseUint(value, 8, 32)
	if err != nil || !ok || perr != nil {
		return 0o077
	}
	return uint32(mask)
}

// Continue lets the call happen as it is.
func (c *Call) Continue() {
	c.answer(response{Flags: unix.SECCOMP_USER_NOTIF_FLAG_CONTINUE})
}

// Return answers the call with 0, as if it had happened.
func (c *Call) Return() { c.answer(response{}) }

// Fail answers the call with an error.
func (c *Call) Fail(err error) {
	e := unix.EIO
	errors.As(err, &e)
	c.answer(response{Error: -int32(e)})
}

// answer is heard of by nobody when the process is gone.
func (c *Call) answer(r response) {
	r.ID = c.id
	_ = c.l.control(ioctlSend, unsafe.Pointer(&r))
}

// Give answers the call with a descriptor for an open file, which stays the caller's.
func (c *Call) Give(f *os.File) {
	a := addition{ID: c.id, Flags: unix.SECCOMP_ADDFD_FLAG_SEND, Fd: uint32(f.Fd()), NewFlags: uint32(c.Flags & unix.O_CLOEXEC)}
	if err := c.l.control(ioctlAdd, unsafe.Pointer(&a)); err != nil {
		c.Fail(err)
	}
}
