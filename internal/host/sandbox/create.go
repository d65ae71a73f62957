package sandbox

import (
	"bytes"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/byssus-hpc/byssus/internal/wire/frames"
)

// A config is what the hub is told by the creator.
type config struct {
	Record  record  `json:"record"`
	Options Options `json:"options"`
	Nodes   []Node  `json:"nodes"`
	UserNS  bool    `json:"userns"`
	Cover   string  `json:"cover"` // hidden from nodes: sockets of this user on the machine
}

// keep tells the hub that its creator knows it to be complete.
type keep struct{}

// Create makes a sandbox and returns when all its nodes are up.
func Create(o Options) (*Cluster, error) {
	if err := o.check(); err != nil {
		return nil, err
	}
	p, err := reserve(o.Name)
	if err != nil {
		return nil, err
	}
	defer p.release()
	r := record{Name: o.Name, Nodes: o.Nodes, Spares: o.Spares, Created: time.Now()}
	if err := p.create(o, &r); err != nil {
		return nil, errors.Join(err, p.remove(r))
	}
	return &Cluster{Name: o.Name, Prefix: r.Prefix, place: p}, nil
}

// create does what is left to do when the directory is there. After an error there are no processes.
func (p *place) create(o Options, r *record) error {
	if o.Prefix == "" {
		o.Prefix = p.prefix()
		if err := os.Mkdir(o.Prefix, 0o700); err != nil {
			return fmt.Errorf("sandbox: create %s: %w", o.Name, err)
		}
	}
	cpus, err := processors()
	if err != nil {
		return err
	}
	if o, err = o.complete(len(cpus)); err != nil {
		return err
	}
	r.Prefix = o.Prefix
	cfg := config{Options: o, Nodes: plan(o, cpus)}
	if cfg.Cover, err = resolve(filepath.Dir(filepath.Dir(p.dir))); err != nil {
		return fmt.Errorf("sandbox: create %s: %w", o.Name, err)
	}
	if cfg.UserNS, err = needsUserNS(); err != nil {
		return err
	}
	if err := p.prepareCgroup(o, r); err != nil {
		return err
	}
	cfg.Record = *r
	return p.startHub(cfg)
}

// prepareCgroup makes the cgroups of the sandbox, where there can be some, after they stand in the record.
func (p *place) prepareCgroup(o Options, r *record) error {
	info, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return fmt.Errorf("sandbox: create %s: %w", o.Name, err)
	}
	own, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return fmt.Errorf("sandbox: create %s: %w", o.Name, err)
	}
	if err := r.chooseCgroups(string(info), string(own), o); err != nil {
		return fmt.Errorf("sandbox: create %s: %w", o.Name, err)
	}
	if err := p.write(*r); err != nil {
		return err
	}
	if r.Limits != "" {
		if err := makeCgroup(r.Limits, false); err != nil {
			return err
		}
	}
	if r.Cgroup == "" {
		return nil
	}
	limit := o.Memory > 0 && r.Limits == "" // is that of the same cgroup
	err = makeCgroup(r.Cgroup, limit)
	if err != nil && !limit { // read-only after all, or too many: freezing does without
		r.Cgroup = ""
		return p.write(*r)
	}
	return err
}

// chooseCgroups says where the cgroups are to be: one for all, if there can be one; where memory is to have a limit, one that can have
// that, of whichever version. The texts are those of home.
func (r *record) chooseCgroups(mountinfo, own string, o Options) error {
	id := make([]byte, 4)
	_, _ = rand.Read(id) // never fails
	name := "byssus-" + o.Name + "-" + hex.EncodeToString(id)
	dir, err := home(mountinfo, own, o.Memory > 0)
	if err != nil && o.Memory > 0 {
		limits, err1 := memoryHome(mountinfo, own)
		if err1 != nil {
			return fmt.Errorf("memory limit: needs the memory controller of cgroup version 2 or 1, and the right to make cgroups: %w; %w", err, err1)
		}
		r.Limits = filepath.Join(limits, name)
		dir, err = home(mountinfo, own, false)
	}
	if err == nil { // else nodes have none
		r.Cgroup = filepath.Join(dir, name)
	}
	return nil
}

// needsUserNS says whether we lack the right to make the other namespaces.
func needsUserNS() (bool, error) {
	head := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	if err := unix.Capget(&head, &data[0]); err != nil {
		return false, fmt.Errorf("sandbox: own capabilities: %w", err)
	}
	return os.Geteuid() != 0 || data[0].Effective&(1<<unix.CAP_SYS_ADMIN) == 0, nil
}

// hubCapabilities are what hub and nodes use, where they are not root.
func hubCapabilities() []uintptr {
	return []uintptr{unix.CAP_DAC_OVERRIDE, unix.CAP_FOWNER, unix.CAP_KILL, unix.CAP_NET_ADMIN, unix.CAP_SYS_PTRACE, unix.CAP_SYS_ADMIN}
}

// startHub starts the hub and waits until all nodes are up.
func (p *place) startHub(cfg config) error {
	name := cfg.Options.Name
	ours, theirs, err := frames.Pair()
	if err != nil {
		return fmt.Errorf("sandbox: create %s: %w", name, err)
	}
	defer ours.Close()
	defer theirs.Close()
	log, err := os.OpenFile(p.path("log"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return fmt.Errorf("sandbox: create %s: %w", name, err)
	}
	defer log.Close()
	cmd := &exec.Cmd{Path: cfg.Options.Exe, Args: []string{"byssus", initVerb, "hub", name, p.dir}, Env: []string{}, Dir: "/",
		Stdout: log, Stderr: log, ExtraFiles: []*os.File{theirs, p.lock}}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true,
		Cloneflags: unix.CLONE_NEWNS | unix.CLONE_NEWUTS | unix.CLONE_NEWIPC | unix.CLONE_NEWPID | unix.CLONE_NEWNET}
	if cfg.UserNS {
		cmd.SysProcAttr.Cloneflags |= unix.CLONE_NEWUSER
		cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{ContainerID: os.Geteuid(), HostID: os.Geteuid(), Size: 1}}
		cmd.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{ContainerID: os.Getegid(), HostID: os.Getegid(), Size: 1}}
		cmd.SysProcAttr.AmbientCaps = hubCapabilities()
	}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("sandbox: create %s: namespaces: %w%s", name, err, whyNot(err, cfg.UserNS))
	}
	theirs.Close()
	if err = p.complete(ours, cfg); err == nil {
		go func() { _ = cmd.Wait() }() // how it ends does not matter; that nobody waits would leave a zombie
		return nil
	}
	_ = cmd.Process.Kill() // it may have ended
	_ = cmd.Wait()         // killed
	return fmt.Errorf("sandbox: create %s: %w%s", name, err, p.lastWords())
}

// whyNot is advice where the kernel denies namespaces.
func whyNot(err error, userNS bool) string {
	switch {
	case userNS && (errors.Is(err, unix.EPERM) || errors.Is(err, unix.EACCES)):
		return " (an ordinary user needs user namespaces: sysctl kernel.unprivileged_userns_clone, kernel.apparmor_restrict_unprivileged_userns)"
	case errors.Is(err, unix.ENOSPC):
		return " (too many namespaces: sysctl user.max_user_namespaces and the like)"
	}
	return ""
}

// complete tells the hub what to make, waits until that is there, and lets it stay.
func (p *place) complete(hub *net.UnixConn, cfg config) error {
	if err := frames.Send(hub, cfg); err != nil {
		return fmt.Errorf("hub: %w", err)
	}
	_ = hub.SetReadDeadline(time.Now().Add(2 * hang)) // of a socket it never fails
	var r reply
	if _, err := frames.Receive(hub, &r); err != nil {
		return fmt.Errorf("hub: %w", err)
	}
	if err := r.err(); err != nil {
		return err
	}
	cfg.Record.Ready = true
	if err := p.write(cfg.Record); err != nil {
		return err
	}
	if err := frames.Send(hub, keep{}); err != nil {
		return fmt.Errorf("hub: %w", err)
	}
	return nil
}

// lastWords is the end of what hub and nodes have said.
func (p *place) lastWords() string {
	text, err := os.ReadFile(p.path("log"))
	text = bytes.TrimSpace(text)
	if err != nil || len(text) == 0 {
		return ""
	}
	return fmt.Sprintf(" (they said: %s)", text[max(0, len(text)-2000):])
}
