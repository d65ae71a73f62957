package main

import (
	"encoding/binary"
	"math/rand/v2"
	"reflect"

	"github.com/byssus-hpc/byssus/pup"
)

// newTree makes a balanced tree of the keys 0 to n-1 whose nodes point to their parents. Where a node lies in memory is
// chosen by place, which gives it the next free one for the order of visits, or any.
func newTree(n int, place func() *Node) *Node { return subtree(0, n, nil, place) }

func subtree(low, high int, parent *Node, place func() *Node) *Node {
	if low >= high {
		return nil
	}
	middle, x := (low+high)/2, place()
	*x = Node{Key: int64(middle), Parent: parent}
	x.Left = subtree(low, middle, x, place)
	x.Right = subtree(middle+1, high, x, place)
	return x
}

// inOrder allocates nodes one after the other.
func inOrder() *Node { return new(Node) }

// scattered gives n nodes that were allocated before, in random order, as in a tree that has lived for long.
func scattered(n int) func() *Node {
	list := make([]*Node, n)
	for i := range list {
		list[i] = new(Node)
	}
	random := rand.New(rand.NewPCG(1, 2))
	random.Shuffle(n, func(i, j int) { list[i], list[j] = list[j], list[i] })
	return func() *Node {
		x := list[len(list)-1]
		list = list[:len(list)-1]
		return x
	}
}

// tree measures a tree with pointers up, which is a graph with cycles. None of the others can store one; they are
// given the tree without these pointers, which are set again after unpacking as a part of the work.
func (b *bench) tree() error {
	b.note("Tree: encoding/gob does not end at a pointer to the parent, encoding/json refuses it as a cycle, nor can")
	b.note("msgpack, cbor and msgp know that two pointers lead to the same. Variants named")
	b.note("down-* leave these pointers out and set them again after unpacking; only pup-graph-* store what is shared.")
	for _, order := range []struct {
		name  string
		place func() *Node
	}{{"ordered", inOrder}, {"scattered", scattered(b.nodes)}} {
		root := newTree(b.nodes, order.place)
		codecs := graphCodecs(root)
		if order.name == "ordered" {
			codecs = append(codecs, branchCodecs(branches(root, nil))...)
		}
		size := b.nodes * int(reflect.TypeFor[Node]().Size())
		name := "Tree/" + order.name
		if err := b.compare(comparison{name + "/pack/reused", b.nodes, size, packing(true, codecs)}); err != nil {
			return err
		}
		unpack, err := unpacking(false, codecs)
		if err != nil {
			return err
		}
		if err := b.compare(comparison{name + "/unpack/fresh", b.nodes, size, unpack}); err != nil {
			return err
		}
	}
	return nil
}

func graphCodecs(root *Node) []codec {
	equal := func(a, b *Node) error {
		if !equalTrees(a, b, nil) {
			return errDiffers
		}
		return nil
	}
	return []codec{
		newCodec("by-hand", root, equal,
			func(b []byte, n *Node) ([]byte, error) { return appendTree(b, n), nil },
			func(data []byte, n *Node, _ bool) error { return decodeTree(data, n) }),
		pupCodec("pup-graph-unchecked", root, equal, pup.Graph(), pup.Unchecked()),
		pupCodec("pup-graph-checksums", root, equal, pup.Graph()),
	}
}

// equalTrees compares keys and shape, and asks that each node of b points to its parent.
func equalTrees(a, b, parent *Node) bool {
	if a == nil || b == nil {
		return a == b
	}
	return a.Key == b.Key && b.Parent == parent && equalTrees(a.Left, b.Left, b) && equalTrees(a.Right, b.Right, b)
}

// appendTree packs a tree by hand: the key of each node, and which children follow. The parents are known from that.
func appendTree(b []byte, n *Node) []byte {
	var children byte
	if n.Left != nil {
		children |= 1
	}
	if n.Right != nil {
		children |= 2
	}
	b = append(binary.LittleEndian.AppendUint64(b, uint64(n.Key)), children)
	if n.Left != nil {
		b = appendTree(b, n.Left)
	}
	if n.Right != nil {
		b = appendTree(b, n.Right)
	}
	return b
}

func decodeTree(data []byte, root *Node) error {
	rest, err := decodeNode(data, root)
	if err == nil && len(rest) > 0 {
		err = errDiffers
	}
	return err
}

func decodeNode(b []byte, n *Node) (rest []byte, err error) {
	if len(b) < 9 {
		return nil, errShort
	}
	n.Key = int64(binary.LittleEndian.Uint64(b))
	children, b := b[8], b[9:]
	if children&1 != 0 {
		n.Left = &Node{Parent: n}
		if b, err = decodeNode(b, n.Left); err != nil {
			return nil, err
		}
	}
	if children&2 != 0 {
		n.Right = &Node{Parent: n}
		b, err = decodeNode(b, n.Right)
	}
	return b, err
}

// branches copies a tree into one whose pointers up are not stored.
func branches(n *Node, parent *Branch) *Branch {
	if n == nil {
		return nil
	}
	x := &Branch{Key: n.Key, parent: parent}
	x.Left, x.Right = branches(n.Left, x), branches(n.Right, x)
	return x
}

// branchCodecs store the tree without the pointers up.
func branchCodecs(root *Branch) []codec {
	return []codec{
		newCodec("down-pup-checksums", root, equalBranches, packPUP[Branch](), thenParents(unpackPUP[Branch])),
		newCodec("down-gob", root, equalBranches, packGob[Branch], thenParents(unpackGob[Branch])),
		newCodec("down-json", root, equalBranches, packJSON[Branch], thenParents(unpackJSON[Branch])),
		newCodec("down-msgpack", root, equalBranches, packMsgpack[Branch], thenParents(unpackMsgpack[Branch])),
		newCodec("down-cbor", root, equalBranches, packCBOR[Branch], thenParents(unpackCBOR[Branch])),
		newCodec("down-msgp", root, equalBranches, packMsgp[Branch], thenParents(unpackMsgp[Branch])),
	}
}

// thenParents lets an unpacking set the pointers up.
func thenParents(unpack func([]byte, *Branch, bool) error) func([]byte, *Branch, bool) error {
	return func(data []byte, root *Branch, filled bool) error {
		err := unpack(data, root, filled)
		setParents(root)
		return err
	}
}

// setParents sets the pointers up.
func setParents(n *Branch) {
	for _, child := range []*Branch{n.Left, n.Right} {
		if child != nil {
			child.parent = n
			setParents(child)
		}
	}
}

func equalBranches(a, b *Branch) error {
	if !sameBranches(a, b, nil) {
		return errDiffers
	}
	return nil
}

func sameBranches(a, b, parent *Branch) bool {
	if a == nil || b == nil {
		return a == b
	}
	return a.Key == b.Key && b.parent == parent && sameBranches(a.Left, b.Left, b) && sameBranches(a.Right, b.Right, b)
}
