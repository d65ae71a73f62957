// Package locate finds the elements of a collection, which migrate between ranks: it decides, for one rank, whether a message is run
// there, held, sent on, or an error because its element does not exist.
//
// It guarantees, whatever the order in which messages between ranks arrive:
//
//   - An element is on at most one rank. Its moves are counted; the number of the move names the place: nobody else has it.
//   - A message is run once, or is told to be an error once. Nobody sends one again, and nobody looks for duplicates: whoever takes
//     a message runs it, holds it or sends it on.
//   - No message is held for ever: it is held where its element leaves, arrives or is on its way to, or home has the answer.
//   - A message makes at most two hops more than its element made moves of which whoever sent it had not heard (if that was told
//     of no place: of which home had not heard). However old the news that it went by, it makes four hops, and one more for each
//     move of which the news are under way.
//   - What a rank remembers of others' elements is bounded (New), and to forget it costs a hop, never a message.
//
// Every element has a home, a rank that follows from its number. The home's entry is never given up while the element exists, and only
// news of a larger move replace it. A migration from r to t:
//
//	r            t            home
//	Migrate                            r holds what comes for the element
//	Left -state-> Arrive               r sends on to t, and t holds
//	             Installed             t runs what it held
//	               ---Installed-->     home sends to t, and tells senders
//	  <----------------Acked---        r may forget where the element went, once the phase is over
//
// That is one message to home and one from it, beside the state; one of them alone where home is r or t. The rank that had the element
// before hears from home, not from t: it must not forget before home knows. Nor does home hear of a creation later than others:
// a rank that isn't home asks it (Create), and is given the number of the move. That is larger than all those of an element of the
// same number that was destroyed, so that news of that one are never taken for news of this one. (Those that were destroyed are
// entries of home's until the phase is over; from then on, home knows a number that is larger than all of theirs.)
//
// A message carries the move that it goes after. A rank sends it on only to the place of a later move, or to home; home, only to the
// place of this move or a later one. A rank where the element isn't and, as far as it knows, never was, may have been overtaken
// by the news, or have forgotten. It holds the message, and asks home:
//
//	t gets a message for move m; it has no entry
//	t --Ask m--> home knows m or less: no answer. t cannot have forgotten, or home would have heard of m+1 before; the state comes
//	             home knows more:      t is told, and sends on what it holds
//
// Who sends on a message tells its first sender of the place, once for many messages in a row. Only places that home has heard of are
// told, so that messages do not arrive before states more than they must. There are no entries for elements that are at home.
//
// Ordered messages (Numbers, Sequence) have numbers by pair of elements, which travel with both; one that comes too early is held where its
// element is.
//
// What the caller guarantees: calls of one machine follow each other, and what they order is sent. A message that is held keeps its
// epoch from being over. An index is inserted again only after the epoch in which it was destroyed, and a message for one that is
// being inserted or destroyed may be an error: both have epochs of their own. The end of a phase may come to ranks at different
// times. All ranks have the same function from elements to homes.
//
// It is pure: what is to be done is appended to a list that the caller hands in. The ways of most messages allocate nothing.
package locate

// A Do says what is to be done.
type Do uint8

// What is to be done with a message, and otherwise.
const (
	Hold    Do = iota // nothing: the machine keeps the message
	Run               // run it here, now
	Forward           // send it to rank To, where Deliver takes it
	Fail              // there is no such element: an error of the message's epoch
	Tell              // send News to rank To, where Receive takes it
	Install           // the element that was to be created is here
	Refuse            // it isn't: there is one
)

// A Stamp is what a message carries beside itself, whichever ways it goes.
type Stamp struct {
	Move   uint32 // of the element, when it is where the message goes; 0: home will know
	Origin int32  // the rank that sent it first
	ByHome bool   // home has seen it
}

// A Step is what is to be done with the message of a call. On its way it carries the Move and ByHome that are here, and its Origin.
type Step struct {
	Do     Do
	ByHome bool
	Move   uint32
	To     int32
}

// An Order is what is to be done beside that: with a message that was held, or otherwise.
//
// Orders to Run are for now: a caller that lets other calls come between hands the message to Deliver again, with its stamp.
type Order[M any] struct {
	Do      Do
	To      int32
	Stamp   Stamp
	Element uint64
	Message M
	News    News
}

// A Kind says what ranks tell each other.
type Kind uint8

// What they tell.
const (
	Installed Kind = iota // to home: the element is on the rank that tells, since this move; before, it was on Rank
	Destroyed             // to home: by this move, it is nowhere
	Acked                 // from home: it knows of that
	Ask                   // to home: a message for this move is on a rank that knows nothing of the element
	Told                  // the element is on Rank, since this move
	Gone                  // from home: it was destroyed by this move
	Create                // to home: may it be made here
	Granted               // from home: yes, with this move
	Refused               // from home: no, there is one
)

// News is what the machine on one rank tells that on another.
type News struct {
	Kind    Kind
	Move    uint32
	Rank    int32
	Element uint64
}
