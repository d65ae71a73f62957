// Package frames carries messages, and descriptors with them, between processes of one machine: over a unix socket, four bytes
// of length (little-endian), then that many bytes of JSON. Descriptors come with the length.
//
// A message comes whole with all its descriptors, or not at all. Who sends on a connection from several goroutines takes turns.
package frames

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"runtime"
	"syscall"
)

const (
	longest   = 16 << 20 // bytes of a message: an environment and arguments as long as the kernel takes them
	mostFiles = 16       // that come with one
)

// Bytes and Strings turn arguments into what can be sent, and back: any bytes, which strings in JSON are not.
func Bytes(list []string) (bytes [][]byte) {
	for _, s := range list {
		bytes = append(bytes, []byte(s))
	}
	return bytes
}

// Strings is the reverse of Bytes.
func Strings(list [][]byte) (text []string) {
	for _, b := range list {
		text = append(text, string(b))
	}
	return text
}

// Send writes a message. The files are the sender's to close; they are blocking from then on, as processes expect their
// standard streams.
func Send(c *net.UnixConn, v any, files ...*os.File) error {
	body, err := json.Marshal(v)
	if err != nil {
		return err
	}
	if len(body) > longest || len(files) > mostFiles {
		return fmt.Errorf("frames: a message of %d bytes and %d descriptors, at most %d and %d", len(body), len(files), longest, mostFiles)
	}
	head := binary.LittleEndian.AppendUint32(nil, uint32(len(body)))
	_, _, err = c.WriteMsgUnix(head, rightsOf(files...), nil)
	runtime.KeepAlive(files)
	if err != nil {
		return err
	}
	_, err = c.Write(body)
	return err
}

// rightsOf is what hands files over.
func rightsOf(files ...*os.File) []byte {
	if len(files) == 0 {
		return nil
	}
	var fds []int
	for _, f := range files {
		fds = append(fds, int(f.Fd()))
	}
	return syscall.UnixRights(fds...)
}

// Receive reads a message, and the descriptors that came with it. io.EOF: the other side is gone.
func Receive(c *net.UnixConn, v any) ([]*os.File, error) {
	head, oob := make([]byte, 4), make([]byte, syscall.CmsgSpace(mostFiles*4))
	n, k, _, _, err := c.ReadMsgUnix(head, oob)
	if err != nil {
		return nil, err
	}
	if n == 0 {
		return nil, io.EOF
	}
	files, err := descriptors(oob[:k])
	if err == nil {
		_, err = io.ReadFull(c, head[n:])
	}
	if err == nil {
		err = readBody(c, binary.LittleEndian.Uint32(head), v)
	}
	if err != nil {
		CloseAll(files)
		return nil, err
	}
	return files, nil
}

func readBody(c *net.UnixConn, n uint32, v any) error {
	if n > longest {
		return fmt.Errorf("frames: a message of %d bytes, at most %d", n, longest)
	}
	body := make([]byte, n)
	if _, err := io.ReadFull(c, body); err != nil {
		return err
	}
	return json.Unmarshal(body, v)
}

// descriptors takes what came with a message.
func descriptors(oob []byte) ([]*os.File, error) {
	messages, err := syscall.ParseSocketControlMessage(oob)
	if err != nil {
		return nil, err
	}
	var files []*os.File
	for _, m := range messages {
		fds, err := syscall.ParseUnixRights(&m)
		if err != nil {
			CloseAll(files)
			return nil, err
		}
		for _, fd := range fds {
			files = append(files, os.NewFile(uintptr(fd), "handed over"))
		}
	}
	return files, nil
}

// CloseAll closes files.
func CloseAll(files []*os.File) {
	for _, f := range files {
		f.Close()
	}
}

// Pair makes two ends of a connection: one for us, one for a process that we start.
func Pair() (ours *net.UnixConn, theirs *os.File, err error) {
	fds, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, fmt.Errorf("frames: socketpair: %w", err)
	}
	theirs = os.NewFile(uintptr(fds[1]), "socketpair")
	if ours, err = Conn(os.NewFile(uintptr(fds[0]), "socketpair")); err != nil {
		theirs.Close()
		return nil, nil, err
	}
	return ours, theirs, nil
}

// Conn makes a connection of a descriptor, which is closed.
func Conn(f *os.File) (*net.UnixConn, error) {
	defer f.Close()
	c, err := net.FileConn(f)
	if err != nil {
		return nil, err
	}
	u, ok := c.(*net.UnixConn)
	if !ok {
		c.Close()
		return nil, fmt.Errorf("frames: descriptor %s is no unix socket", f.Name())
	}
	return u, nil
}
