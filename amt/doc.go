// Package amt runs programs that are made of tasks: handlers that send each other messages, on many ranks, in epochs.
//
// A program is SPMD: its main function runs on every rank. It begins epochs, sends messages to handlers on any rank, and
// waits for the epochs; handlers send further messages.
//
//	type Ping struct{ Left int }
//
//	var ping amt.Handler[Ping]
//
//	func init() {
//		ping.Is(func(c amt.Context, m *Ping) {
//			if m.Left > 0 {
//				ping.Send(c, (c.Rank()+1)%c.Ranks(), &Ping{m.Left - 1})
//			}
//		})
//	}
//
//	err := amt.RunLocal(4, func(c amt.Context) error {
//		return c.Collective("ring", func(c amt.Context) error {
//			if c.Rank() == 0 {
//				ping.Send(c, 1, &Ping{100})
//			}
//			return nil
//		}).Wait(c)
//	})
//
// # What is guaranteed
//
//   - A message is handled once, on the rank that it was sent to; a handler runs to its end before another of its rank
//     begins. Messages may overtake each other. Of those that have come, the ones with the highest Priority are handled first.
//   - An epoch is over when everything is done that was begun under it: messages sent by its bodies, by the handlers of
//     those messages, by tasks (Go), and epochs begun within it; wherever they run. It is never told over earlier, and
//     soon afterwards (package term has the rules and their sources).
//   - An error of a body, a handler or a task is that of its epoch (on ranks that are goroutines with what it wraps, for errors.Is and
//     errors.As; between processes its text travels, and a HangError): Wait returns it, and what comes After the epoch fails with
//     it. If the code that began it, which may wait, neither does nor has something come after it, the error is one of the epoch
//     around when that code has ended, and so in the end of Run.
//   - A Context belongs to the code, and the goroutine, that it was given to. One that is used afterwards, on another goroutine, or by
//     a handler in place of its own, ends the program and says whose it is.
//   - An element of a Collection is on one rank, and migrates with its state; each message to it is handled once, wherever it is by then, and
//     each broadcast to a collection by each of its elements. An epoch that fails loses no element. What Save has stored Restore brings back
//     on any number of ranks: all elements, or an error.
//   - All ranks begin the same collective epochs, reductions and scopes in the same order: if not, the program ends with what they
//     are called on two ranks.
//   - What a rank has sent and nobody has handled takes no more memory than MemoryVariable says, and what handlers send, who cannot
//     wait. Send and Broadcast of main functions handle what comes, as Poll does, while there is no room.
//   - When every main function and task waits and no message is on its way, nothing can ever go on: Run returns a HangError
//     that says who waits for whom. A task, a handler or an operation of a scope that runs for long is no hang: it is told on
//     the standard error, by name (PatienceVariable), and so is a main function that waits elsewhere than in this package.
//
// # What ranks of one process share
//
// With RunLocal, ranks are goroutines: variables of packages, flags and files are the same for all of them, os.Exit and a
// panic end them all. A program that is to run on other transports too keeps what belongs to a rank in what its main
// function makes, and hands it on in messages.
//
// # Programs that are not Go's
//
// A program of C or Fortran that uses MPI calls a library of Go, which attaches the runtime (Attach), enters it as often as it
// likes, and leaves it; amt/examples/attach has one in each language.
//
// Messages whose type has no pointers travel as they lie in memory, all others as package pup packs them. One that is longer than 16 KiB
// is packed once, into memory of its own; its longer slices stay there when it has come (pup.Codec.UnmarshalOwned).
package amt
