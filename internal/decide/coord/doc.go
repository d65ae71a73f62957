// Package coord decides for a job: when its ranks are stopped, what is committed, kept and dropped, and what happens
// when a rank dies. It is a pure state machine: no network, no disk, no clock, no goroutine. Everything that happens
// comes in as an Event with the time at which it happened; everything that is to be done goes out as an Action.
//
// It guarantees:
//   - STOP is sent only when every rank has said MET for the newest version of the targets, so that no rank is stopped
//     inside a blocking collective, and none before it has posted what another member has completed (see agreement.go);
//   - an attempt that cannot come to an end because a rank waits for a message of a rank that holds is given up and
//     made again, with a growing pause, a bounded number of times;
//   - a checkpoint counts when every rank's image is complete and the driver has said Committed; nothing older is
//     dropped before that, and Keep good ones always remain;
//   - a job is started again at most Retries times without a checkpoint beyond the point at which it died, and at most Restarts
//     times in all; an image that fails is tried at most twice and then the next older one is; so no sequence of events
//     makes it restart for ever.
//
// The driver (coordsrv) performs actions in order and may report their results at any later time.
package coord
