package agent

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/byssus-hpc/byssus/internal/control"
	"github.com/byssus-hpc/byssus/internal/dataset"
	"github.com/byssus-hpc/byssus/internal/node"
	"github.com/byssus-hpc/byssus/internal/ui"
)

// ErrRoom means that a cache is too small.
var ErrRoom = errors.New("too small")

// room is what is known of a cache before a checkpoint.
type room struct {
	images int64 // bytes of the node's images
	share  int   // what is kept for others is so many times less; 0: nothing is
	copies int   // checkpoints that lie here at once: those that are kept, and the one in work
	free   int64 // of the file system
	held   int64 // by the job, which its next checkpoints take the place of
}

// check says whether what is to come has room. What is free now need not be enough for all: some of it is there already.
func (r room) check() error {
	var parity int64
	if r.share > 0 {
		parity = (r.images + int64(r.share) - 1) / int64(r.share)
	}
	wanted := int64(r.copies) * (r.images + parity)
	if wanted <= r.free+r.held {
		return nil
	}
	return fmt.Errorf("%w: wanted %d x (%s images + %s redundancy) = %s, found %s free + %s held", ErrRoom, r.copies,
		ui.Bytes(r.images), ui.Bytes(parity), ui.Bytes(wanted), ui.Bytes(r.free), ui.Bytes(r.held))
}

// checkRoom says whether the node's cache has room for a checkpoint, when it can be told how much that needs: there has been one,
// or an attempt. Programs that have become smaller since need less.
func (n *Node) checkRoom(number uint64, o control.Prepare) error {
	s := n.server(number)
	if o.Copies == 0 || s == nil {
		return nil
	}
	pages := s.Sample()
	r := room{images: n.lastImages(s.cfg.Ranks, pages), share: o.Share, copies: o.Copies}
	var err error
	var known bool
	if r.free, known, err = free(n.store.Dir); err == nil {
		r.held, err = size(n.store.Dir)
	}
	if err != nil {
		return fmt.Errorf("agent: room in cache: %w", err)
	}
	if !known || r.check() == nil {
		return nil
	}
	var now int64
	for _, p := range pages {
		bytes, err := upperBytes(p.PID)
		if err != nil {
			return nil // it has ended, and so will the attempt
		}
		now += bytes
	}
	r.images = min(r.images, now)
	if err := r.check(); err != nil {
		return fmt.Errorf("agent: cache %s on node %s: %w", n.store.Dir, n.cfg.Name, err)
	}
	return nil
}

// lastImages is how long the images of ranks were in the newest checkpoint here; of those that are not in it, what they last
// wrote or read.
func (n *Node) lastImages(ranks []int, pages []node.Sample) int64 {
	var sum int64
	here := map[int]bool{}
	if all, err := n.store.Checkpoints(); err == nil && len(all) > 0 {
		if m, err := dataset.ReadManifest(n.store.Path(all[len(all)-1])); err == nil {
			for _, f := range m.Files {
				if slices.Contains(ranks, f.Rank()) {
					here[f.Rank()], sum = true, sum+f.Size
				}
			}
		}
	}
	for i, rank := range ranks {
		if !here[rank] && i < len(pages) {
			sum += int64(pages[i].BytesTotal)
		}
	}
	return sum
}

// free is the room of a file system; one without a limit does not tell.
func free(dir string) (bytes int64, known bool, err error) {
	var st syscall.Statfs_t
	if err := syscall.Statfs(dir, &st); err != nil {
		return 0, false, &fs.PathError{Op: "statfs", Path: dir, Err: err}
	}
	blocks := st.Bavail
	if os.Geteuid() == 0 {
		blocks = st.Bfree
	}
	return int64(blocks) * st.Bsize, st.Blocks > 0, nil
}

// size is how much the files below a directory occupy. What vanishes meanwhile does not.
func size(dir string) (int64, error) {
	const block = 512
	var sum int64
	err := filepath.WalkDir(dir, func(_ string, e fs.DirEntry, err error) error {
		if err == nil && e.Type().IsRegular() {
			var st fs.FileInfo
			if st, err = e.Info(); err == nil {
				if sys, ok := st.Sys().(*syscall.Stat_t); ok {
					sum += sys.Blocks * block
				}
			}
		}
		if errors.Is(err, fs.ErrNotExist) {
			err = nil
		}
		return err
	})
	return sum, err
}

// upperBytes is how much memory a rank's program has, which lies below the lower half.
func upperBytes(pid int) (int64, error) {
	f, err := os.Open(fmt.Sprintf("/proc/%d/smaps", pid))
	if err != nil {
		return 0, err
	}
	defer f.Close()
	return residentBelow(f, arenaEnd)
}

// arenaEnd is where the lower half begins (rank/core/layout.h).
const arenaEnd = 0x5000_0000_0000

// residentBelow sums up what smaps tells of mappings below an address. Lines: "start-end perms offset ...", then of each mapping
// "Name: number kB".
func residentBelow(smaps io.Reader, end uint64) (int64, error) {
	const kB = 1024
	var sum int64
	below := false
	lines := bufio.NewScanner(smaps)
	for lines.Scan() {
		var from, to uint64
		var amount int64
		line := lines.Text()
		if _, err := fmt.Sscanf(line, "Rss: %d kB", &amount); err == nil && below {
			sum += amount * kB
		} else if head, _, _ := strings.Cut(line, " "); strings.Contains(head, "-") {
			_, err := fmt.Sscanf(head, "%x-%x", &from, &to)
			below = err == nil && from < end
		}
	}
	return sum, lines.Err()
}
