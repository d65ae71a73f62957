// Package sandbox makes a cluster out of one Linux machine: nodes of namespaces that can be killed, cut off, slowed
// down and filled up one by one, so that the failure of nodes can be tried. Root needs nothing else; another user needs
// user namespaces.
//
// Two kinds of processes hold a sandbox up, both this program again (Init):
//
//	hub     first process of the outer namespaces (mount, uts, ipc, pid, net, and user when not root). It has the
//	        bridge, is the parent of all nodes, and answers the verbs at a socket in the sandbox's directory.
//	nodeN   first process of a node's own namespaces (mount, uts, ipc, pid, net). It arranges the node's file system,
//	        starts what is to run there, reaps orphans, and forwards nothing. The login node is one like the others.
//
// What a process on a node sees: the machine's files, read-only; directories of the node's own, each a tmpfs of bounded
// size (OwnDirs); the prefix and the bound directories, which all nodes share and may write; the node's own processes,
// System V objects and network. The hub's namespaces are nobody's, so that no node sees another's processes.
//
// A process is started on a node by the node's first process, which is asked over a unix socket and is handed the
// descriptors (SCM_RIGHTS); nobody enters namespaces. So the process is a child of its node: it dies with it, nothing
// has to be single-threaded, there is no moment in which a death signal is not armed yet, and the same connection
// carries signals in and the exit code out. The end of the connection is the end of the caller, and kills the process.
//
// It guarantees:
//   - a sandbox whose creation fails, or whose creator dies before it is complete, leaves nothing;
//   - when the hub is killed everything ends: it is the first process of the pid namespace around all others;
//   - so it does when the sandbox's directory is removed, without which nobody could end it;
//   - after Destroy there is no process, mount, cgroup, link or file of it;
//   - nothing of the machine is written to, but the sandbox's directory, its cgroups, the prefix and what is bound;
//   - Kill closes the connections of a node, as the end of its processes does (peers get FIN or RST); after Crash peers
//     hear nothing more: the cable is gone before the processes are.
//
// It is no wall against malice: a root user's processes on a node are root on the machine's kernel, and may undo mounts.
// The prefix is one file system of one kernel: a unix socket or a FIFO in it connects nodes, and memory mapped from a
// file in it is coherent, which is not so on the shared file system of a real cluster.
//
// Lock order: node.mu, then children.mu. A verb holds the mutex of its node from the look at the state to the change.
package sandbox
