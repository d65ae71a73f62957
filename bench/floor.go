package main

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/subtle"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"syscall"
	"time"

	"github.com/byssus-hpc/byssus/internal/decide/redset"
	"github.com/byssus-hpc/byssus/internal/store/format"
)

// costs are processor seconds for a byte, of this machine in these minutes.
type costs struct {
	read, write float64 // of a file in memory, over what it holds
	sum         float64 // CRC-32C
	xor         float64
	tcp         float64 // both ends
	seal        map[string]float64
	open        map[string]float64
}

const calibrated = 256 << 20 // bytes, of each part, by each processor

// What package syscall has no names for: getrusage(2), tcp(7).
const (
	rusageThread  = 1
	tcpCongestion = 13
)

// calibrate measures what the parts of encoding cost by themselves, each in the pieces in which it is done, while all processors do
// the like: they share their memory, and some of them a core. Files are as long as images. What else is done is done to so many bytes
// in turn: with many they come from memory each time, with one piece they stay in a processor's cache, as if nothing else were done
// between two steps with a piece.
func (b *bench) calibrate(bytes int) (*costs, error) {
	each, errs := make([]costs, runtime.NumCPU()), make([]error, runtime.NumCPU())
	var done sync.WaitGroup
	for i := range each {
		done.Go(func() {
			errs[i] = each[i].measure(filepath.Join(b.dir, fmt.Sprintf("floor.%d", i)), make([]byte, bytes))
		})
	}
	done.Wait()
	mean := &costs{seal: map[string]float64{}, open: map[string]float64{}}
	n := float64(len(each))
	for _, c := range each {
		mean.read, mean.write, mean.sum = mean.read+c.read/n, mean.write+c.write/n, mean.sum+c.sum/n
		mean.xor, mean.tcp = mean.xor+c.xor/n, mean.tcp+c.tcp/n
		for t := range c.seal {
			mean.seal[t], mean.open[t] = mean.seal[t]+c.seal[t]/n, mean.open[t]+c.open[t]/n
		}
	}
	return mean, errors.Join(errs...)
}

// measure is what calibrate does on one processor; file is one that it may make, from what it works on.
func (c *costs) measure(file string, from []byte) error {
	runtime.LockOSThread() // whose time it is
	defer runtime.UnlockOSThread()
	block, err := aes.NewCipher(make([]byte, 16))
	if err != nil {
		return fmt.Errorf("bench: floor: %w", err)
	}
	aead, err := cipher.NewGCM(block)
	if err != nil {
		return fmt.Errorf("bench: floor: %w", err)
	}
	to := make([]byte, redset.Piece)
	for i := range from {
		from[i] = byte(i * 7)
	}
	c.sum = pieces(func(at int) { format.Checksum(piece(from, at)) })
	c.xor = pieces(func(at int) { subtle.XORBytes(to, to, piece(from, at)) })
	c.seal, c.open = map[string]float64{}, map[string]float64{}
	nonce, sealed := make([]byte, aead.NonceSize()), make([]byte, 0, redset.Piece+aead.Overhead())
	c.seal["encrypted"] = pieces(func(at int) { sealed = aead.Seal(sealed[:0], nonce, piece(from, at), nil) })
	c.open["encrypted"] = pieces(func(int) {
		if _, oerr := aead.Open(to[:0], nonce, sealed, nil); oerr != nil {
			err = oerr
		}
	})
	c.seal["authenticated"] = pieces(func(at int) { sealed = aead.Seal(sealed[:0], nonce, nil, piece(from, at)) })
	c.open["authenticated"] = c.seal["authenticated"]
	return errors.Join(err, c.files(file, from), c.network(from))
}

// piece is the one of b at an offset of something longer, which is b again and again.
func piece(b []byte, at int) []byte {
	at %= len(b)
	return b[at : at+redset.Piece]
}

// pieces is the processor time of a function for a byte, over so many bytes in pieces.
func pieces(f func(at int)) float64 {
	begin := processor()
	for at := 0; at < calibrated; at += redset.Piece {
		f(at)
	}
	return (processor() - begin) / calibrated
}

// processor is the time that this thread has spent, in seconds.
func processor() float64 {
	var u syscall.Rusage
	if err := syscall.Getrusage(rusageThread, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano()).Seconds()
}

func (c *costs) files(path string, data []byte) error {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return fmt.Errorf("bench: floor: %w", err)
	}
	defer os.Remove(path)
	defer f.Close()
	write := func(at int) {
		if _, werr := f.WriteAt(piece(data, at), int64(at)); werr != nil {
			err = werr
		}
	}
	pieces(write) // gives it its memory
	c.write = pieces(write)
	into := make([]byte, redset.Piece)
	c.read = pieces(func(at int) {
		if _, rerr := f.ReadAt(into, int64(at)); rerr != nil {
			err = rerr
		}
	})
	return err
}

// network sends through the loopback interface, with the congestion control that the nodes of a sandbox have.
func (c *costs) network(data []byte) error {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return fmt.Errorf("bench: floor: %w", err)
	}
	defer l.Close()
	var reno error
	set := func(fd uintptr) { reno = syscall.SetsockoptString(int(fd), syscall.IPPROTO_TCP, tcpCongestion, "reno") }
	dialer := net.Dialer{Control: func(_, _ string, raw syscall.RawConn) error { return errors.Join(raw.Control(set), reno) }}
	out, err := dialer.Dial("tcp", l.Addr().String())
	if err != nil {
		return fmt.Errorf("bench: floor: %w", err)
	}
	defer out.Close()
	in, err := l.Accept()
	if err != nil {
		return fmt.Errorf("bench: floor: %w", err)
	}
	defer in.Close()
	read := make(chan error, 1)
	var reader float64
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		var err error
		into := make([]byte, redset.Piece)
		reader = pieces(func(int) {
			if _, rerr := io.ReadFull(in, into); rerr != nil {
				err = rerr
			}
		})
		read <- err
	}()
	writer := pieces(func(at int) {
		if _, werr := out.Write(piece(data, at)); werr != nil {
			err = werr
		}
	})
	out.Close() // the reader's end, if something was not written
	if err := errors.Join(err, <-read); err != nil {
		return fmt.Errorf("bench: floor: %w", err)
	}
	c.tcp = writer + reader
	return nil
}

// floor is how many milliseconds the plan of a set of so many parts takes when all processors do nothing else.
func (c *costs) floor(scheme redset.Scheme, transport string, parts []int64) (float64, error) {
	l, err := redset.NewLayout(scheme, parts)
	if err != nil {
		return 0, fmt.Errorf("bench: floor: %w", err)
	}
	seconds := 0.0
	for me := range parts {
		for s := range l.Encode(me) {
			n := float64(s.Length)
			switch s.Op {
			case redset.Read:
				seconds += n * c.read
			case redset.Add:
				seconds += n * (c.read + c.xor)
			case redset.Write:
				seconds += n * c.write
				if scheme == redset.XOR {
					seconds += n * c.sum
				}
			case redset.Send:
				seconds += n * (c.tcp + c.seal[transport])
			case redset.Receive:
				seconds += n * c.open[transport]
			}
		}
	}
	return 1e3 * seconds / float64(runtime.NumCPU()), nil
}
