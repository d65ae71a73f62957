// Package pup turns Go values into bytes and back: for checkpoints, for snapshots in memory, and for objects that move
// from one process to another. The name is the field's word for it, pack and unpack.
//
// One traversal of a type serves every direction, so the directions cannot drift apart:
//
//	func (c *Cell) PUP(p *pup.Stream) {
//		pup.Number(p, &c.ID)
//		pup.String(p, &c.Name)
//		pup.PlainSlice(p, &c.Weights)
//		pup.Ptr(p, &c.Next, pup.Object)
//		pup.Skip(p, &c.cache, "made again on demand")
//	}
//
// The same method finds the size, packs, unpacks, counts the memory, describes the type and is checked (Check).
//
// # What is guaranteed
//
//   - What Unmarshal returns without an error is what Marshal was given: nil and empty slices and maps differ, NaNs keep
//     their bits, every stored byte is covered by a checksum (unless Unchecked asks otherwise).
//   - The bytes depend on the value alone: not on the binary, the order of linking, the order of a map's iteration, the
//     processor's byte order or word size.
//   - Data that is truncated, damaged, made up or of another type gives an error that names the place
//     (Mesh.Cells[3].Name: length 9223372036854775807 exceeds the 212 bytes left), never a panic. What is allocated
//     is bounded by the data that is there (MaxMemory), and packing refuses what could not be unpacked for it.
//   - With the option Graph, pointers, slices and interfaces that share memory share it again afterwards, cycles
//     and pointers into other values included; what cannot be kept is refused by name. Without it, a value is a tree:
//     what is reachable twice is stored twice, and Check says where.
//   - A value that cannot be saved (a channel, a function, a lock, an unregistered type in an interface) is refused by
//     the path that leads to it. So is one whose identity is its meaning (a seed, a unique.Handle), unless its type is
//     registered with a way to make it again (Handle); a *time.Location is kept by what it stands for (Location).
//   - On a Go release whose runtime is not as assumed, nothing is packed or unpacked: assumptions_unsafe.go lists all that
//     is assumed and tested.
//
// Not kept is capacity: that of a slice is its length afterwards, but for room that is shared in a graph (Graph).
//
// # How fast
//
// A type falls into a class (ClassOf says which). A plain type, one without pointers, is copied as
// memory; so are slices of it. Types with code from pupgen and types with a PUP method of their own come next. All
// others are walked by reflection, the last resort.
//
// A Stream belongs to one goroutine. Values must not be changed while they are packed.
//
// # Old data
//
// A stream carries the schema of every type in it, in text. Data of another version of a type is read by the rules that
// are declared where the type is registered (Added, Removed, Renamed, Widened); without a rule, the error lists the
// differences field by field. docs/format/pup.md draws every byte.
package pup
