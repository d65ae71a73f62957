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
	"syscall"
	"time"

	"github.com/byssus-hpc/byssus/internal/format"
	"github.com/byssus-hpc/byssus/internal/redset"
)

// costs are processor seconds for a byte, of this machine in these minutes.
type costs struct {
	read, write float64 // of a file in memory; a fresh one
	sum         float64 // CRC-32C
	xor         float64
	tcp         float64 // both ends
	seal        map[string]float64
	open        map[string]float64
}

const calibrated = 256 << 20 // bytes

// calibrate measures what the parts of encoding cost by themselves, each in the pieces in which it is done.
func (b *bench) calibrate() (*costs, error) {
	block, err := aes.NewCipher(make([]byte, 16))
	if err != nil {
		return nil, fmt.Errorf("bench: floor: %w", err)
	}
	aead, err := cipher.NewGCM(block)
	if err != nil {
		return nil, fmt.Errorf("bench: floor: %w", err)
	}
	from, to := make([]byte, calibrated), make([]byte, calibrated)
	for i := range from {
		from[i] = byte(i * 7)
	}
	c := &costs{seal: map[string]float64{}, open: map[string]float64{}}
	c.sum = pieces(func(at int) { format.Checksum(from[at : at+redset.Piece]) })
	c.xor = pieces(func(at int) {
		subtle.XORBytes(to[:redset.Piece], to[:redset.Piece], from[at:at+redset.Piece])
	})
	nonce, sealed := make([]byte, aead.NonceSize()), make([]byte, 0, redset.Piece+aead.Overhead())
	c.seal["encrypted"] = pieces(func(at int) { sealed = aead.Seal(sealed[:0], nonce, from[at:at+redset.Piece], nil) })
	c.open["encrypted"] = pieces(func(int) {
		if _, oerr := aead.Open(to[:0], nonce, sealed, nil); oerr != nil {
			err = oerr
		}
	})
	c.seal["authenticated"] = pieces(func(at int) { sealed = aead.Seal(sealed[:0], nonce, nil, from[at:at+redset.Piece]) })
	c.open["authenticated"] = c.seal["authenticated"]
	return c, errors.Join(err, c.files(filepath.Join(b.dir, "floor"), from), c.network(from))
}

// pieces is the processor time of a function for a byte, over so many bytes in pieces.
func pieces(f func(at int)) float64 {
	begin := processor()
	for at := 0; at < calibrated; at += redset.Piece {
		f(at)
	}
	return (processor() - begin) / calibrated
}

// processor is the time that this process has spent, in seconds.
func processor() float64 {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
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
	c.write = pieces(func(at int) {
		if _, werr := f.WriteAt(data[at:at+redset.Piece], int64(at)); werr != nil {
			err = werr
		}
	})
	piece := make([]byte, redset.Piece)
	c.read = pieces(func(at int) {
		if _, rerr := f.ReadAt(piece, int64(at)); rerr != nil {
			err = rerr
		}
	})
	return err
}

// network sends through the loopback interface.
func (c *costs) network(data []byte) error {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return fmt.Errorf("bench: floor: %w", err)
	}
	defer l.Close()
	out, err := net.Dial("tcp", l.Addr().String())
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
	begin := processor()
	go func() {
		piece := make([]byte, redset.Piece)
		for range calibrated / redset.Piece {
			if _, err := io.ReadFull(in, piece); err != nil {
				read <- err
				return
			}
		}
		read <- nil
	}()
	for at := 0; at < len(data); at += redset.Piece {
		if _, err := out.Write(data[at : at+redset.Piece]); err != nil {
			return fmt.Errorf("bench: floor: %w", err)
		}
	}
	err = <-read
	c.tcp = (processor() - begin) / calibrated
	return err
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
