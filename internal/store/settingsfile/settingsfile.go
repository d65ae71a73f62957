// Package settingsfile reads the two files in which settings of SCR are: the user's and the system's.
//
// It guarantees: what package settings makes of them is what a program in that directory would get from SCR, which looks for the same
// files at the same places; reading waits for nobody, and takes regular files of at most a MiB. A file that is named and cannot be read is
// told of in the settings' notes.
package settingsfile

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"github.com/byssus-hpc/byssus/internal/decide/settings"
)

// most is how large a file may be.
const most = 1 << 20

// Read is where a program finds its settings that works in a directory, with this environment, and has given these strings to SCR_Config.
// Variables that its values name and its environment has not are looked up in that of this process.
func Read(dir string, environ, app []string) (settings.Sources, error) {
	src := settings.Sources{Dir: dir, Environ: environ, Variables: os.Environ(), App: app}
	if !filepath.IsAbs(dir) {
		return src, fmt.Errorf("settingsfile: directory %q, wanted an absolute path", dir)
	}
	var named bool
	src.UserName, named = settings.UserPath(src)
	src.User, src.UserErr = text(src.UserName, named)
	src.SystemName, named = settings.SystemPath(src)
	src.System, src.SystemErr = text(src.SystemName, named)
	return src, nil
}

// text is what is in a file, or why it cannot be read. One that nobody has named need not be there.
func text(path string, named bool) (content, why string) {
	b, err := read(path)
	var of *fs.PathError
	switch {
	case err == nil:
		return string(b), ""
	case !named && (errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR)):
		return "", ""
	case errors.As(err, &of):
		return "", of.Err.Error()
	}
	return "", err.Error()
}

func read(path string) ([]byte, error) {
	if path == os.DevNull {
		return nil, nil // none is wanted
	}
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK|syscall.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !st.Mode().IsRegular() {
		return nil, fmt.Errorf("found %s, wanted a file", st.Mode())
	}
	b, err := io.ReadAll(io.LimitReader(f, most+1))
	if err == nil && len(b) > most {
		err = fmt.Errorf("more than %d bytes", most)
	}
	return b, err
}
