// Package pmi speaks PMI-1, the protocol by which MPICH's ranks learn who they are, where the others are and how to reach
// them, so that ranks on several nodes can be started without MPICH's own launcher. It is pure: lines and messages come in,
// what is to be written and sent goes out. Package pmifd carries the lines.
//
// A rank talks to the Node of its own machine, and the Nodes talk to the one Root of the job. A Node folds: what its ranks
// put goes up once, together with the barrier that all of them have entered, and comes down as one delta of all nodes with
// the barrier's end; every get is answered on the spot. So a barrier costs one message up and one down for each node, however
// many ranks it has and whatever they put. A job on one machine is a Root with one Node.
//
// It guarantees:
//   - what was put is visible to all ranks that have left a later barrier, and to the ranks of the same node at once. Of
//     several puts of one key the last wins, over the nodes the one with the highest number;
//   - every line is answered, but for abort: what is unknown, too long, or refused (spawning) gets an answer that MPICH takes
//     for an error, since a rank that gets none waits for ever. Unknown commands are events, too;
//   - a rank can neither hurt others nor fill the memory: one that speaks nonsense, out of turn, or more than maxStored bytes
//     of keys, values, names and unknown lines is hung up on, and the End that says so names it;
//   - of the ends of a job (MPI_Abort, a rank that is gone before MPI_Finalize, one that was hung up on) every Node learns
//     the first; its own rank's it has reported itself.
//
// Not here: getbyidx and the calls that make and destroy key-value spaces, which no MPICH has used since MPICH2 1.4 and hydra
// does not know either (they count as unknown); barriers of groups, which belong to PMI 1.2, which we do not claim to speak;
// and the key PMI_dead_processes. Where the answers differ between servers, they are those of MPICH's hydra.
//
// What a rank of MPICH also takes from its environment, on several nodes:
//   - ch4:ucx chooses among all interfaces of both sides. Where some of a node do not lead to the others (bridges of containers,
//     networks for administration): UCX_NET_DEVICES=eth0. UCX_TLS=tcp,self,posix,cma keeps it from looking for other hardware.
//     Whether two ranks share memory it finds out by itself, whatever PMI_process_mapping says;
//   - ch4:ofi: FI_PROVIDER=tcp and FI_TCP_IFACE=eth0;
//   - ch3: MPIR_CVAR_NETWORK_IFACE=eth0 or, exclusive with it, MPIR_CVAR_CH3_INTERFACE_HOSTNAME=ADDRESS of that node;
//   - MPIR_CVAR_CH4_ROOTS_ONLY_PMI=1: only one rank of each node puts its address, the others tell theirs by MPI.
//
// Before MPICH 4.2, ranks of ch4:ucx on several nodes hang in MPI_Finalize more often than not: pmifd/testdata/finalize.c.
package pmi
