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

	"golang.org/x/sys/unix"

	"github.com/byssus-hpc/byssus/internal/act/control"
	"github.com/byssus-hpc/byssus/internal/decide/node"
	"github.com/byssus-hpc/byssus/internal/decide/redset"
	"github.com/byssus-hpc/byssus/internal/host/machine"
	"github.com/byssus-hpc/byssus/internal/store/dataset"
	"github.com/byssus-hpc/byssus/internal/ui"
)

// ErrRoom means that a cache is too small.
var ErrRoom = errors.New("too small")

// room is what is known of a cache before a checkpoint.
type room struct {
	images int64        // bytes of the node's images
	share  redset.Share // of them, what is kept for others
	copies int          // checkpoints that lie here at once: those that are kept, and the one in work
	free   int64        // of the file system; or of memory, where the cache is in that and a cgroup leaves less
	by     string       // that cgroup
	held   int64        // by the job, which its next checkpoints take the place of
}

// check says whether what is to come has room. What is free now need not be enough for all: some of it is there already.
func (r room) check() error {
	redundancy := r.share.Of(r.images)
	wanted := int64(r.copies) * (r.images + redundancy)
	if wanted <= r.free+r.held {
		return nil
	}
	by := ""
	if r.by != "" {
		by = fmt.Sprintf(" (%s of the memory that %s allows are kept for the program)", ui.Bytes(memoryReserve), r.by)
	}
	return fmt.Errorf("%w: wanted %d x (%s images + %s redundancy) = %s, found %s free + %s held%s", ErrRoom, r.copies,
		ui.Bytes(r.images), ui.Bytes(redundancy), ui.Bytes(wanted), ui.Bytes(r.free), ui.Bytes(r.held), by)
}

// memoryReserve is how much of the memory that is allowed no checkpoint takes: for agent and ranks while one is taken. Where there is no
// memory left the kernel kills ranks.
const memoryReserve = 32 << 20

// checkRoom says whether the node's cache has room for a checkpoint, when it can be told how much that needs: there has been one,
// or an attempt. Programs that have become smaller since need less. Where memory is limited the first one must have room, too, as
// large as what the program has written to.
func (n *Node) checkRoom(number uint64, o control.Prepare) error {
	s := n.server(number)
	if o.Copies == 0 || s == nil {
		return nil
	}
	pages := s.Sample()
	r := room{images: n.lastImages(s.cfg.Ranks, pages), share: o.Share, copies: o.Copies}
	known, err := r.look(n.store.Dir)
	if err != nil {
		return fmt.Errorf("agent: room in cache: %w", err)
	}
	first := r.images == 0 && r.by != "" // a file system that is full ends an attempt; without memory ranks end
	if !known || !first && r.check() == nil {
		return nil
	}
	var now, written int64
	for _, p := range pages {
		all, own, err := upperBytes(p.PID)
		if err != nil {
			return nil // it has ended, and so will the attempt
		}
		now, written = now+all, written+own
	}
	if r.images = min(r.images, now); first {
		r.images, r.copies = written, 1
	}
	if err := r.check(); err != nil {
		return fmt.Errorf("agent: cache %s on node %s: %w", n.store.Dir, n.cfg.Name, err)
	}
	return nil
}

// hasRoom says whether a cache has room for so many bytes, when it can be told: what is there already gives its place.
func (n *cache) hasRoom(bytes int64) error {
	var r room
	known, err := r.look(n.store.Dir)
	switch {
	case err != nil:
		return fmt.Errorf("agent: room in cache: %w", err)
	case !known || bytes <= r.free+r.held:
		return nil
	}
	return fmt.Errorf("agent: cache %s on node %s: %w: wanted %s, for two snapshots with their redundancy, found %s free + %s held", n.store.Dir, n.cfg.Name,
		ErrRoom, ui.Bytes(bytes), ui.Bytes(r.free), ui.Bytes(r.held))
}

// lastImages is how long the images of ranks were in the newest checkpoint here; of those that are not in it, what they last
// wrote or read.
func (n *cache) lastImages(ranks []int, pages []node.Sample) int64 {
	var sum int64
	here := map[int]bool{}
	store := n.of(0)
	if all, err := store.List(); err == nil && len(all) > 0 {
		if m, err := dataset.ReadManifest(store.Path(all[len(all)-1])); err == nil {
			for _, f := range m.Files {
				if slices.Contains(ranks, f.Rank) {
					here[f.Rank], sum = true, sum+f.Size
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

// look finds out what is free and held; known: somebody tells.
func (r *room) look(dir string) (known bool, err error) {
	inMemory := false
	if r.free, known, inMemory, err = free(dir); err == nil {
		r.held, err = size(dir)
	}
	if err != nil || !inMemory {
		return known, err
	}
	left, cgroup, err := machine.MemoryLeft() // limits that cannot be read are as none: the file system has its own
	if left = max(left-memoryReserve, 0); err == nil && cgroup != "" && (!known || left < r.free) {
		r.free, r.by, known = left, cgroup, true
	}
	return known, err
}

// free is the room of a file system; one without a limit does not tell.
func free(dir string) (bytes int64, known, inMemory bool, err error) {
	var st syscall.Statfs_t
	if err := syscall.Statfs(dir, &st); err != nil {
		return 0, false, false, &fs.PathError{Op: "statfs", Path: dir, Err: err}
	}
	blocks := st.Bavail
	if os.Geteuid() == 0 {
		blocks = st.Bfree
	}
	return int64(blocks) * st.Bsize, st.Blocks > 0, st.Type == unix.TMPFS_MAGIC || st.Type == unix.RAMFS_MAGIC, nil
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

// upperBytes is how much memory a rank's program has, which lies below the lower half, and how much of that it has written to.
func upperBytes(pid int) (all, written int64, err error) {
	f, err := os.Open(fmt.Sprintf("/proc/%d/smaps", pid))
	if err != nil {
		return 0, 0, err
	}
	defer f.Close()
	return residentBelow(f, arenaEnd)
}

// arenaEnd is where the lower half begins (rank/core/layout.h).
const arenaEnd = 0x5000_0000_0000

// residentBelow sums up what smaps tells of mappings below an address. Lines: "start-end perms offset ...", then of each mapping
// "Name: number kB".
func residentBelow(smaps io.Reader, end uint64) (all, written int64, err error) {
	const kB = 1024
	below := false
	lines := bufio.NewScanner(smaps)
	for lines.Scan() {
		var from, to uint64
		line := lines.Text()
		name, amount, found := strings.Cut(line, ":")
		switch {
		case found && below && (name == "Rss" || name == "Anonymous"):
			var n int64
			if _, err := fmt.Sscanf(amount, "%d kB", &n); err != nil {
				return 0, 0, fmt.Errorf("smaps: %q: %w", line, err)
			}
			if name == "Rss" {
				all += n * kB
			} else {
				written += n * kB
			}
		case strings.Contains(strings.SplitN(line, " ", 2)[0], "-"):
			_, err := fmt.Sscanf(line, "%x-%x ", &from, &to)
			below = err == nil && from < end
		}
	}
	return all, written, lines.Err()
}
