package sandbox

import (
	"errors"
	"fmt"
	"maps"
	"net"
	"sync"

	"github.com/google/nftables"
	"github.com/google/nftables/binaryutil"
	"github.com/google/nftables/expr"
	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"
)

// The network: a bridge in the hub's namespace, and for each node a pair of links, whose one end is in the bridge under
// the node's name and whose other end is eth0 of the node. All of it is done from the hub, by netlink alone.

// A network is the bridge.
type network struct {
	handle *netlink.Handle // on the hub's namespace
	bridge netlink.Link

	mu      sync.Mutex
	members map[string]int // nodes that are plugged in, and their first processes
}

// newNetwork makes the bridge.
func newNetwork() (*network, error) {
	h, err := netlink.NewHandle(unix.NETLINK_ROUTE)
	if err != nil {
		return nil, fmt.Errorf("network: %w", err)
	}
	attrs := netlink.NewLinkAttrs()
	attrs.Name = "br0"
	w := &network{handle: h, members: map[string]int{}, bridge: &netlink.Bridge{LinkAttrs: attrs}}
	if err := h.LinkAdd(w.bridge); err != nil {
		return nil, fmt.Errorf("network: bridge: %w%s", err, lacks(err, "bridge"))
	}
	if err := h.LinkSetUp(w.bridge); err != nil {
		return nil, fmt.Errorf("network: bridge: %w", err)
	}
	return w, nil
}

// lacks names a part of the kernel that is not there.
func lacks(err error, module string) string {
	if errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.ENOENT) || errors.Is(err, unix.EAFNOSUPPORT) || errors.Is(err, unix.EPROTONOSUPPORT) {
		return " (this kernel has no " + module + ", or does not load it)"
	}
	return ""
}

// plug connects a node, whose first process is pid. Its hardware address is always the same, so that nobody has a wrong
// one in mind when it comes back.
func (w *network) plug(n Node, pid int) error {
	ip := net.ParseIP(n.Address).To4()
	attrs := netlink.NewLinkAttrs()
	attrs.Name = n.Name
	attrs.MasterIndex = w.bridge.Attrs().Index
	pair := netlink.NewVeth(attrs)
	pair.PeerName, pair.PeerNamespace = "eth0", netlink.NsPid(pid)
	pair.PeerHardwareAddr = net.HardwareAddr{2, 0, ip[0], ip[1], ip[2], ip[3]}
	if err := w.handle.LinkAdd(pair); err != nil {
		return fmt.Errorf("network: link: %w%s", err, lacks(err, "veth"))
	}
	err := at(pid, func(h *netlink.Handle, _ netns.NsHandle) error {
		for _, name := range []string{"lo", "eth0"} {
			link, err := h.LinkByName(name)
			if err != nil {
				return fmt.Errorf("network: %s: %w", name, err)
			}
			if name == "eth0" {
				addr := &netlink.Addr{IPNet: &net.IPNet{IP: ip, Mask: net.CIDRMask(24, 32)}}
				if err := h.AddrAdd(link, addr); err != nil {
					return fmt.Errorf("network: %s: address %s: %w", name, n.Address, err)
				}
			}
			if err := h.LinkSetUp(link); err != nil {
				return fmt.Errorf("network: %s: %w", name, err)
			}
		}
		return w.set(n, true)
	})
	if err == nil {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.members[n.Name] = pid
	}
	return err
}

// at does something in the network namespace of a process.
func at(pid int, do func(*netlink.Handle, netns.NsHandle) error) error {
	ns, err := netns.GetFromPid(pid)
	if err != nil {
		return fmt.Errorf("network: namespace of pid %d: %w", pid, err)
	}
	defer ns.Close()
	h, err := netlink.NewHandleAt(ns, unix.NETLINK_ROUTE)
	if err != nil {
		return fmt.Errorf("network: namespace of pid %d: %w", pid, err)
	}
	defer h.Close()
	return do(h, ns)
}

// set takes the link of a node up or down, at the bridge.
func (w *network) set(n Node, up bool) error {
	link, err := w.handle.LinkByName(n.Name)
	if err != nil {
		return fmt.Errorf("network: link: %w", err)
	}
	if up {
		err = w.handle.LinkSetUp(link)
	} else {
		err = w.handle.LinkSetDown(link)
	}
	if err != nil {
		return fmt.Errorf("network: link: %w", err)
	}
	return nil
}

// meet lets a node that is there again and the others find each other at once: for a while they would take each other for unreachable.
func (w *network) meet(n Node) error {
	w.mu.Lock()
	members := maps.Clone(w.members)
	w.mu.Unlock()
	for name, pid := range members {
		address := n.Address
		if name == n.Name {
			address = ""
		}
		err := w.forget(pid, address)
		if errors.Is(err, unix.ESRCH) || errors.Is(err, unix.ENOENT) { // it has just died
			continue
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// forget lets a node, whose first process is pid, look anew for the hardware address of another, or of all.
func (w *network) forget(pid int, address string) error {
	return at(pid, func(h *netlink.Handle, _ netns.NsHandle) error {
		link, err := h.LinkByName("eth0")
		if err != nil {
			return fmt.Errorf("network: eth0: %w", err)
		}
		known, err := h.NeighList(link.Attrs().Index, netlink.FAMILY_V4)
		if err != nil {
			return fmt.Errorf("network: neighbours: %w", err)
		}
		for _, k := range known {
			if address != "" && k.IP.String() != address {
				continue
			}
			if err := h.NeighDel(&k); err != nil && !errors.Is(err, unix.ENOENT) {
				return fmt.Errorf("network: neighbour %s: %w", k.IP, err)
			}
		}
		return nil
	})
}

// left: a node is gone.
func (w *network) left(n Node) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.members, n.Name)
}

// unplug removes the link of a node, both ends, if it is still there: it goes by itself some time after the node.
func (w *network) unplug(n Node) error {
	link, err := w.handle.LinkByName(n.Name)
	if err == nil {
		err = w.handle.LinkDel(link)
	}
	if missing := (netlink.LinkNotFoundError{}); errors.As(err, &missing) || errors.Is(err, unix.ENODEV) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("network: link: %w", err)
	}
	return nil
}

// ends does something at both ends of a node's link, for the two directions.
func (w *network) ends(n Node, pid int, do func(h *netlink.Handle, ns netns.NsHandle, name string) error) error {
	if err := do(w.handle, netns.None(), n.Name); err != nil {
		return err
	}
	return at(pid, func(h *netlink.Handle, ns netns.NsHandle) error { return do(h, ns, "eth0") })
}

// cap limits a node's link to so many bytes a second each way; 0: no limit.
func (w *network) cap(n Node, pid int, rate uint64) error {
	return w.ends(n, pid, func(h *netlink.Handle, _ netns.NsHandle, name string) error {
		link, err := h.LinkByName(name)
		if err != nil {
			return fmt.Errorf("network: link: %w", err)
		}
		attrs := netlink.QdiscAttrs{LinkIndex: link.Attrs().Index, Handle: netlink.MakeHandle(1, 0), Parent: netlink.HANDLE_ROOT}
		if rate == 0 {
			err := h.QdiscDel(&netlink.Tbf{QdiscAttrs: attrs})
			if err != nil && !errors.Is(err, unix.ENOENT) && !errors.Is(err, unix.EINVAL) { // there is none
				return fmt.Errorf("network: tbf: %w", err)
			}
			return nil
		}
		burst := uint32(max(64<<10, rate/100)) // what the link passes at once: ten milliseconds, and a large packet at least
		queue := burst + uint32(min(rate/5, 1<<30))
		err = h.QdiscReplace(&netlink.Tbf{QdiscAttrs: attrs, Rate: rate, Buffer: netlink.Xmittime(rate, burst), Limit: queue})
		if err != nil && lacks(err, "tbf") != "" {
			err = fmt.Errorf("%w: %w", err, ErrUnsupported)
		}
		if err != nil {
			return fmt.Errorf("network: tbf: %w%s", err, lacks(err, "sch_tbf"))
		}
		return nil
	})
}

// lossScale is in how many parts loss is drawn.
const lossScale = 10000

// drop makes a node's link lose packets each way, where they arrive at its ends; 0: none. It is done by nftables,
// which more kernels have than netem.
func (w *network) drop(n Node, pid int, percent float64) error {
	return w.ends(n, pid, func(_ *netlink.Handle, ns netns.NsHandle, name string) error {
		var options []nftables.ConnOption
		if ns != netns.None() {
			options = append(options, nftables.WithNetNSFd(int(ns)))
		}
		c, err := nftables.New(options...)
		if err != nil {
			return fmt.Errorf("network: nftables: %w", err)
		}
		table := &nftables.Table{Family: nftables.TableFamilyNetdev, Name: "loss-" + name}
		c.AddTable(table) // so that it can be deleted
		c.DelTable(table)
		if percent > 0 {
			c.AddTable(table)
			c.AddRule(lossRule(c, table, name, percent))
		}
		err = c.Flush()
		if err != nil && lacks(err, "nftables") != "" {
			return fmt.Errorf("network: nftables: %w: %w%s", err, ErrUnsupported, lacks(err, "nf_tables with netdev chains and numgen"))
		}
		if err != nil {
			return fmt.Errorf("network: nftables: %w", err)
		}
		return nil
	})
}

// lossRule is `numgen random mod 10000 < share drop` on what comes in by a link.
func lossRule(c *nftables.Conn, table *nftables.Table, link string, percent float64) *nftables.Rule {
	chain := c.AddChain(&nftables.Chain{Name: "in", Table: table, Type: nftables.ChainTypeFilter,
		Hooknum: nftables.ChainHookIngress, Priority: nftables.ChainPriorityFilter, Device: link})
	share := uint32(percent*lossScale/100 + 0.5)
	return &nftables.Rule{Table: table, Chain: chain, Exprs: []expr.Any{
		&expr.Numgen{Register: 1, Modulus: lossScale, Type: unix.NFT_NG_RANDOM},
		&expr.Byteorder{SourceRegister: 1, DestRegister: 1, Op: expr.ByteorderHton, Len: 4, Size: 4},
		&expr.Cmp{Op: expr.CmpOpLt, Register: 1, Data: binaryutil.BigEndian.PutUint32(share)},
		&expr.Verdict{Kind: expr.VerdictDrop},
	}}
}
