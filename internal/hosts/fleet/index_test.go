package fleet

import (
	"math/bits"
	"slices"
	"testing"
	"unsafe"

	"pgregory.net/rapid"
)

// TestIndexKnowsWhatWasUsedLast compares the index with lists of blocks in the order of
// their last use.
func TestIndexKnowsWhatWasUsedLast(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const most = 12
		holders := rapid.SampledFrom([]int{1, 3, 70, 130}).Draw(t, "holders")
		x := newIndex()
		lists := make([][]Block, holders)
		for n := range holders {
			if at := x.add(&holder{order: newRecency(), capacity: 1e9}); at != n {
				t.Fatalf("the holder has position %d, want %d", at, n)
			}
		}
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			at := rapid.IntRange(0, holders-1).Draw(t, "holder")
			if rapid.IntRange(0, 15).Draw(t, "lost") == 0 {
				x.clear(at)
				lists[at] = nil
			}
			// Blocks are named after what stands before them, as hashes are.
			var prompt []Block
			name := Block(1)
			for range rapid.IntRange(0, 8).Draw(t, "length") {
				name = name*3 + Block(rapid.IntRange(0, 2).Draw(t, "block"))
				prompt = append(prompt, name)
			}
			x.match(prompt)
			for n := range holders {
				want := 0
				for want < len(prompt) && slices.Contains(lists[n], prompt[want]) {
					want++
				}
				if got := int(x.depths[n]); got != want {
					t.Fatalf("holder %d knows %d blocks of %v, want %d: %v", n, got, prompt, want, lists[n])
				}
			}
			x.use(at, prompt, most)
			for _, block := range slices.Backward(prompt) {
				lists[at] = append(slices.DeleteFunc(lists[at], func(b Block) bool { return b == block }), block)
			}
			lists[at] = lists[at][max(len(lists[at])-most, 0):]
			x.check(t)
		}
	})
}

// check finds disagreements between the sets of an index and the lists of its holders.
func (x *index) check(t interface{ Fatalf(string, ...any) }) {
	held := map[uint32]bool{}
	for position, h := range x.holders {
		if h == nil {
			continue
		}
		count, bytes := 0, int64(0)
		for at := h.order.entries[0].newer; at != 0; at = h.order.entries[at].newer {
			block := h.order.entries[at].block
			held[block] = true
			count++
			bytes += int64(x.blocks[block].size)
			if !x.holds(block, position) || *x.find(x.blocks[block].name) != block {
				t.Fatalf("block %d of holder %d is not in the index", block, position)
			}
		}
		if count != h.order.count || bytes != h.bytes {
			t.Fatalf("holder %d has %d blocks with %d bytes, and counts %d with %d", position, count, bytes, h.order.count, h.bytes)
		}
	}
	if len(held) != x.count {
		t.Fatalf("%d blocks are held, %d are counted", len(held), x.count)
	}
	for _, word := range x.set(0) {
		if word != 0 {
			t.Fatalf("somebody holds the block that is none")
		}
	}
}

// TestWhatEveryChoiceLooksAtIsInOneLine holds the sizes to multiples of a line of the
// processor's cache: a choice among many takes half as long again otherwise.
func TestWhatEveryChoiceLooksAtIsInOneLine(t *testing.T) {
	if host, instance := unsafe.Sizeof(Host{}), unsafe.Sizeof(Instance{}); bits.UintSize == 64 && (host%64 != 0 || instance%64 != 0) {
		t.Errorf("a host has %d bytes, an instance %d", host, instance)
	}
}

// TestIndexForgetsTheEndOfPromptsFirst fills a cache that holds less than a prompt.
func TestIndexForgetsTheEndOfPromptsFirst(t *testing.T) {
	x := newIndex()
	h := &holder{order: newRecency(), capacity: 10 * firstBlock}
	x.add(h)
	var prompt []Block
	for n := range 14 {
		prompt = append(prompt, Block(n+1))
	}
	x.use(0, prompt, 100)
	x.match(prompt)
	if x.depths[0] != 10 || h.bytes != 10*firstBlock {
		t.Errorf("%d blocks with %d bytes are kept, want 10", x.depths[0], h.bytes)
	}
	x.use(0, []Block{100, 101}, 100)
	if x.match(prompt); x.depths[0] != 8 {
		t.Errorf("%d blocks are kept after two others came, want 8", x.depths[0])
	}
}
