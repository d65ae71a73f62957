package pup

import "errors"

// An Error says what could not be done, with which variable, and why.
type Error struct {
	Op   string // "pack", "unpack", "look" (Check and Footprint) or "write"
	Path string // of the variable, from the root's type on: Mesh.Cells[3].Name; "": it is about the whole, or its header
	Err  error
}

func (e *Error) Error() string {
	if e.Path == "" {
		return "pup: " + e.Op + ": " + e.Err.Error()
	}
	return "pup: " + e.Op + ": " + e.Path + ": " + e.Err.Error()
}

func (e *Error) Unwrap() error { return e.Err }

// ErrDepth is wrapped by errors about values that are nested deeper than MaxDepth.
var ErrDepth = errors.New("nested too deeply")

// ErrData is wrapped by errors about bytes that are not what pup wrote: truncated, damaged or made up.
var ErrData = errors.New("damaged data")

// ErrSchema is wrapped by errors about data of other types than the program's, or other versions without rules.
var ErrSchema = errors.New("other schema")

// ErrType is wrapped by errors about values of types that cannot be saved.
var ErrType = errors.New("type cannot be saved")

// ErrMemory is wrapped by errors about values that take much more memory than data: see MaxMemory.
var ErrMemory = errors.New("too much memory for so few bytes")
