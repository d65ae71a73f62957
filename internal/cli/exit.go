package cli

import (
	"errors"
	"fmt"
	"strings"

	"github.com/byssus-hpc/byssus/internal/act/coordsrv"
	"github.com/byssus-hpc/byssus/internal/decide/redset"
	"github.com/byssus-hpc/byssus/internal/host/elfcheck"
	"github.com/byssus-hpc/byssus/internal/host/sandbox"
	"github.com/byssus-hpc/byssus/internal/store/dataset"
	"github.com/byssus-hpc/byssus/internal/store/own"
	"github.com/byssus-hpc/byssus/internal/wire/abi"
)

// Exit codes of byssus itself. What an application returns is passed through.
const (
	ExitFailed   = 120              // byssus failed: disk, memory, a mistake in it
	ExitUsage    = 121              // wrong command line
	ExitNot      = 122              // no such job or checkpoint, no checkpoint could be taken, damage was found
	ExitStopped  = abi.ExitStopped  // 123: the job left after a checkpoint, as asked
	ExitStart    = abi.ExitInternal // 124: the application could not be started or restarted
	ExitRefused  = abi.ExitRefused  // 125: the application cannot be run under Byssus
	ExitNotExec  = abi.ExitNotExec  // 126: found, and not executable
	ExitNotFound = abi.ExitNotFound // 127: not found
)

// exitError carries an exit code. Without an error nothing is printed.
type exitError struct {
	code int
	err  error
}

func (e exitError) Error() string { return fmt.Sprint(e.err) }
func (e exitError) Unwrap() error { return e.err }

func usage(err error) error { return exitError{ExitUsage, err} }

func exitWith(code int) error {
	if code == 0 {
		return nil
	}
	return exitError{code: code}
}

// exitCode prints an error and returns the code for it.
func (e *env) exitCode(err error) int {
	if err == nil {
		return 0
	}
	code := ExitFailed
	var ee exitError
	switch {
	case errors.As(err, &ee):
		if code = ee.code; ee.err == nil {
			return code
		}
		err = ee.err
	case errors.Is(err, elfcheck.ErrRefused):
		code = ExitRefused
	case errors.Is(err, elfcheck.ErrNotExec), errors.Is(err, sandbox.ErrNotExec):
		code = ExitNotExec
	case errors.Is(err, elfcheck.ErrNotFound), errors.Is(err, sandbox.ErrNotFound):
		code = ExitNotFound
	case errors.Is(err, dataset.ErrName), errors.Is(err, sandbox.ErrName), errors.Is(err, sandbox.ErrOption),
		errors.Is(err, redset.ErrTooFew), errors.Is(err, redset.ErrGroups):
		code = ExitUsage
	case isNot(err):
		code = ExitNot
	case strings.HasPrefix(err.Error(), "unknown command"):
		code = ExitUsage
	}
	e.say(err.Error())
	if code == ExitUsage {
		e.say("see byssus help")
	}
	return code
}

func isNot(err error) bool {
	for _, sentinel := range []error{dataset.ErrNoJob, dataset.ErrExists, dataset.ErrLocked, dataset.ErrNoManifest, own.ErrForeign, coordsrv.ErrNotRunning, coordsrv.ErrNoCheckpoint,
		sandbox.ErrNone, sandbox.ErrExists, sandbox.ErrNotRunning, sandbox.ErrNode, sandbox.ErrState, sandbox.ErrDied, sandbox.ErrUnsupported} {
		if errors.Is(err, sentinel) {
			return true
		}
	}
	return false
}
