// Package rounds is the broadcasts to the elements of a collection, and the reductions over them, while elements migrate.
//
// It guarantees, whatever the order in which messages between ranks arrive:
//
//   - Every element runs every broadcast once, and all of them in the same order, wherever it is and however often it moves.
//   - The epoch of a broadcast is held until every element has run it, those too that are on their way between ranks.
//   - A reduction has one value of every element, and combines them in the order of their ordinals, and always in the same pairs:
//     the result does not depend on where elements are, nor on the number of ranks.
//
// Broadcasts of a collection have numbers, which rank 0 gives. They go down the tree of the ranks; each rank takes them in their
// order, and keeps them until their epochs are over. Every element carries the number of the last one that it has run: where it
// arrives behind it is given what it has missed, and where it arrives ahead it is not given what it has run.
//
//	broadcast 7           rank 1                rank 2
//	  to rank 2                                 all its elements run it
//	                      element e leaves, has run 6 ---->
//	  to rank 1           its elements run it; it holds the epoch for e
//	                                            e arrives, is behind: rank 2 holds the epoch, and e runs 7
//	                        <----confirmed----
//	                      it holds the epoch no more
//
// That an element has arrived is confirmed to the rank that it left. Package locate's news do that, so it costs no message: Acked, and
// where home is that rank, Installed. Without it the epoch could be over while the only element that has not run the broadcast is on
// its way.
//
// A reduction is combined over a binary tree of ordinals: an element has one, from 0 on, without gaps. Two neighbours in that tree are
// combined wherever they meet: where elements lie in blocks, mostly on their own rank. A rank sends what it has to the rank above
// when it has nothing else to do. An element may contribute and migrate: its value stays, and that it has contributed goes with it.
//
// An element that is made while there are broadcasts runs those that come to its rank afterwards, wherever it goes then; one that is
// destroyed has run those that had come to its rank.
//
// A broadcast that is for some elements only has its number as all have, and the others run it by doing nothing.
//
// What the caller guarantees: ordinals are given, and a Reduction made of them, when all reductions before are over on all ranks. Each
// element contributes once to each reduction. A broadcast whose epoch has failed is taken and counted as any other; only what elements
// would do is left out.
//
// It is pure: what is to be done is appended to a list that the caller hands in.
package rounds
