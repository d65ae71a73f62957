//go:build !cgo

package mpilib

import (
	"errors"

	"github.com/byssus-hpc/byssus/internal/engine"
)

// Available tells whether the program was built with cgo, without which there is no MPI.
const Available = false

var errNone = errors.New("MPI: this program was built without cgo (CGO_ENABLED=0), which MPI needs: build it with cgo and a C compiler")

// A Ring carries batches.
type Ring struct{}

// A Long is a long message on its way.
type Long struct{}

// Load says that there is no MPI.
func Load(string) error { return errNone }

// Name is empty.
func Name() string { return "" }

// Init says that there is no MPI.
func Init() (rank, ranks int, err error) { return 0, 0, errNone }

// Attach says that there is no MPI.
func Attach(int) (rank, ranks int, err error) { return 0, 0, errNone }

// Detach says that there is no MPI.
func Detach() error { return errNone }

// Finalize says that there is no MPI.
func Finalize() error { return errNone }

// Abort does nothing.
func Abort(int) {}

// Bcast says that there is no MPI.
func Bcast([]byte, int) error { return errNone }

// Least says that there is no MPI.
func Least(int) (int, error) { return 0, errNone }

// Rest does nothing.
func Rest(int) {}

// Open says that there is no MPI.
func Open(*Engine) (*Ring, error) { return nil, errNone }

// Send says that there is no MPI.
func (r *Ring) Send(int, int, []byte, bool) (bool, error) { return false, errNone }

// Look says that there is no MPI.
func (r *Ring) Look(int) (from, tag int, b []byte, err error) { return 0, 0, nil, errNone }

// Size is nothing.
func (r *Ring) Size() int { return 0 }

// Room is nothing.
func (r *Ring) Room() []byte { return nil }

// Free does nothing.
func (r *Ring) Free([]byte) {}

// Close says that there is no MPI.
func (r *Ring) Close() error { return errNone }

// Abandon says that there is no MPI.
func (r *Ring) Abandon() error { return errNone }

// SendLong says that there is no MPI.
func (r *Ring) SendLong([]byte, int, int) (*Long, error) { return nil, errNone }

// ReceiveLong says that there is no MPI.
func (r *Ring) ReceiveLong(int, int, int) (*Long, error) { return nil, errNone }

// Done says that there is no MPI.
func (l *Long) Done() (b []byte, done bool, err error) { return nil, false, errNone }

// An Engine is none.
type Engine struct{ engine.Engine }

// NewEngine says that there is no MPI.
func NewEngine() (*Engine, error) { return nil, errNone }

// Share is 0.
func (e *Engine) Share() int { return 0 }
