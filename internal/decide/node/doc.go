// Package node decides for the agent of one node: what the coordinator hears of what the node's ranks say, and which of
// them hear what the coordinator orders. It is a pure state machine: no network, no disk, no clock, no goroutine.
//
// It guarantees:
//   - what ranks answer alike to one question reaches the coordinator as one report, when the last of them has answered,
//     so that what it hears grows with the number of nodes and not of ranks; nothing is held back longer than Hold;
//   - no report about a rank overtakes an earlier one about that rank; what others wait for (a raise, a failure, an end)
//     is not held back at all, and takes with it what was held;
//   - of several clocks of a communicator the highest is reported, with the number of ranks that have it; a target goes
//     to the ranks that have its communicator, and to all while one of its members may still be making it.
//
// The driver (package agent) hands in what ranks say, and takes out reports and messages to ranks.
package node
