package agent

import (
	"bytes"
	"fmt"
	"os"
	"slices"
	"strings"
)

// A domain is where an inode's number means one object: a device of this machine, as long as it is up, or a file system that
// other machines have too. Ranks know a file by device and inode; what ranks of several nodes share has another device's
// number on each node, and one domain.

// elsewhere are the types of file systems that several machines have mounted. Those of them that have no server of their own
// name ("none", "tmpfs") are told apart by nothing, and count as this machine's.
func elsewhere(fstype string) bool {
	return slices.Contains([]string{"nfs", "nfs4", "lustre", "gpfs", "beegfs", "ceph", "cifs", "smb3", "9p", "afs", "pvfs2", "gfs2", "ocfs2",
		"virtiofs", "panfs", "wekafs"}, fstype) || strings.HasPrefix(fstype, "fuse.")
}

// domains knows the devices of this machine.
type domains struct {
	boot string            // a number that is another after each boot
	name map[uint64]string // of the device's domain
	dev  map[string]uint64 // of domains that a rank has reported something of
}

func newDomains() (*domains, error) {
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return nil, fmt.Errorf("agent: %w", err)
	}
	return &domains{boot: string(bytes.TrimSpace(boot)), dev: map[string]uint64{}}, nil
}

// of is the domain of a device. Mounts are read again when the device is not known: it may be new.
func (d *domains) of(dev uint64) string {
	name, ok := d.name[dev]
	if !ok {
		text, err := os.ReadFile("/proc/self/mountinfo")
		if err != nil {
			text = nil // then all is this machine's
		}
		d.name = shared(text)
		if name = d.name[dev]; name == "" { // a device without a mount, as of pipes, or this machine's own
			name = fmt.Sprintf("%s:%d", d.boot, dev)
			d.name[dev] = name
		}
	}
	d.dev[name] = dev
	return name
}

// shared finds the devices in mountinfo that other machines have too: lines "id parent major:minor root mountpoint options ... -
// type source ...".
func shared(mountinfo []byte) map[uint64]string {
	found := map[uint64]string{}
	for line := range bytes.Lines(mountinfo) {
		before, after, ok := strings.Cut(string(line), " - ")
		fields, fs := strings.Fields(before), strings.Fields(after)
		if !ok || len(fields) < 3 || len(fs) < 2 || !elsewhere(fs[0]) || !strings.ContainsAny(fs[1], ":/@") {
			continue
		}
		var major, minor uint64
		if _, err := fmt.Sscanf(fields[2], "%d:%d", &major, &minor); err == nil {
			found[device(major, minor)] = fs[0] + ":" + fs[1]
		}
	}
	return found
}
