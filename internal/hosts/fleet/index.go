package fleet

import (
	"math/bits"
	"slices"
)

// index knows which instances of a model have which blocks in their caches, judged by the
// prompts that were sent to them: each is taken to hold the blocks that it got last, up to
// the size of its cache. Every block has a set of instances, and one lookup answers for
// all of them.
//
// Every use of a prompt is a use of all its blocks, the first one last. The end of a
// prompt is forgotten before its start, as in the caches of engines.
type index struct {
	blocks  []held   // the first is none, and nobody holds it
	buckets []uint32 // heads of the lists of blocks with names that end alike; a power of two
	sets    []uint64 // words for each block, a bit for each holder
	words   int
	unused  uint32 // the first of the blocks that are not in use, linked by next; 0 is none
	count   int
	holders []*holder // by position; nil where none is

	depths []int32  // of the prompt that was matched last, by position
	rest   []uint64 // see match
}

// held is a block that somebody holds.
type held struct {
	name Block
	size uint32
	next uint32 // in the same bucket; 0 is none
}

// holder is the cache of one instance as the index sees it.
type holder struct {
	order recency
	bytes int64 // of all blocks that it holds
	// capacity is how much it is believed to hold. The number of blocks is bounded too,
	// by the share of the instance in the memory of the index.
	capacity float64
	isTold   bool // the engine has said how large its cache is
}

func newIndex() *index {
	return &index{blocks: make([]held, 1), buckets: make([]uint32, 8), sets: make([]uint64, 1), words: 1}
}

// add makes room for one more holder and returns its position.
func (x *index) add(h *holder) int {
	for position, other := range x.holders {
		if other == nil {
			x.holders[position] = h
			return position
		}
	}
	x.holders = append(x.holders, h)
	if len(x.holders) > 64*x.words {
		x.widen()
	}
	return len(x.holders) - 1
}

// widen makes the sets one word longer.
func (x *index) widen() {
	sets := make([]uint64, len(x.blocks)*(x.words+1))
	for n := range x.blocks {
		copy(sets[n*(x.words+1):], x.sets[n*x.words:(n+1)*x.words])
	}
	x.sets, x.words = sets, x.words+1
}

// remove forgets a holder and frees its position.
func (x *index) remove(position int) {
	x.clear(position)
	x.holders[position] = nil
}

// clear forgets all that a holder has.
func (x *index) clear(position int) {
	h := x.holders[position]
	for h.order.count > 0 {
		x.evict(h, position)
	}
	h.order, h.bytes = newRecency(), 0
}

// use records that a prompt was sent to a holder, which then has its blocks, and forgets
// blocks beyond its room. One call forgets not many more than it adds, because the room
// may have become much smaller, and others wait for the index.
func (x *index) use(position int, prompt []Block, most int) {
	h := x.holders[position]
	for depth := len(prompt) - 1; depth >= 0; depth-- {
		x.hold(h, position, prompt[depth], uint32(blockSize(depth)))
	}
	for n := 2*len(prompt) + minBlocks; n > 0 && h.isOver(most); n-- {
		x.evict(h, position)
	}
}

// evict takes the oldest block from a holder.
func (x *index) evict(h *holder, position int) {
	oldest := h.order.oldest()
	h.order.remove(oldest)
	h.bytes -= int64(x.blocks[oldest].size)
	x.drop(oldest, position)
}

// isOver reports whether a holder has more than it can hold.
func (h *holder) isOver(most int) bool {
	return h.order.count > most || float64(h.bytes) > h.capacity && h.order.count > minBlocks
}

// isFull reports whether a holder has about as much as it can hold.
func (h *holder) isFull() bool { return float64(h.bytes) > 0.9*h.capacity }

// minBlocks is how many blocks every holder is believed to have, however small its cache.
const minBlocks = 8

// hold makes a block the newest of a holder.
func (x *index) hold(h *holder, position int, name Block, size uint32) {
	block := *x.find(name)
	if block == 0 {
		block = x.insert(name, size)
	}
	if h.order.use(block) {
		h.bytes += int64(x.blocks[block].size)
		x.set(block)[position/64] |= 1 << (position % 64)
	}
}

// drop takes a holder out of the set of a block, and the block out of the index where it
// was the last.
func (x *index) drop(block uint32, position int) {
	set := x.set(block)
	set[position/64] &^= 1 << (position % 64)
	for _, word := range set {
		if word != 0 {
			return
		}
	}
	*x.find(x.blocks[block].name) = x.blocks[block].next
	x.blocks[block].next, x.unused = x.unused, block
	x.count--
}

// set returns the holders of a block.
func (x *index) set(block uint32) []uint64 {
	return x.sets[int(block)*x.words : (int(block)+1)*x.words]
}

// find returns the place of a block's number. The number there is 0 if the block is
// missing.
func (x *index) find(name Block) *uint32 {
	place := x.bucket(name)
	for *place != 0 && x.blocks[*place].name != name {
		place = &x.blocks[*place].next
	}
	return place
}

// bucket returns the head of the list of blocks with names that end like this one. Names
// are hashes.
func (x *index) bucket(name Block) *uint32 { return &x.buckets[name&Block(len(x.buckets)-1)] }

// insert adds a block that nobody holds yet.
func (x *index) insert(name Block, size uint32) uint32 {
	if x.count++; x.count > len(x.buckets) {
		x.rebuild()
	}
	block := x.unused
	if block == 0 {
		block = uint32(len(x.blocks))
		x.blocks = append(x.blocks, held{})
		for range x.words {
			x.sets = append(x.sets, 0)
		}
	} else {
		x.unused = x.blocks[block].next
	}
	place := x.bucket(name)
	*place, x.blocks[block] = block, held{name, size, *place}
	return block
}

// rebuild doubles the buckets.
func (x *index) rebuild() {
	old := x.buckets
	x.buckets = make([]uint32, 2*len(old))
	for _, block := range old {
		for block != 0 {
			next, place := x.blocks[block].next, x.bucket(x.blocks[block].name)
			*place, x.blocks[block].next = block, *place
			block = next
		}
	}
}

// match finds how many blocks of a prompt each holder has from its start, and leaves that
// in depths. It goes along the prompt with the holders that have all of it so far, and
// reports whether there were any at all.
func (x *index) match(prompt []Block) (isKnown bool) {
	x.depths = slices.Grow(x.depths[:0], 64*x.words)[:64*x.words]
	clear(x.depths)
	if len(prompt) == 0 {
		return false
	}
	x.rest = append(x.rest[:0], x.set(*x.find(prompt[0]))...)
	isKnown = slices.ContainsFunc(x.rest, func(word uint64) bool { return word != 0 })
	isLeft := isKnown
	for depth := 1; depth < len(prompt) && isLeft; depth++ {
		isLeft = x.stop(depth, x.set(*x.find(prompt[depth])))
	}
	x.stop(len(prompt), x.set(0))
	return isKnown
}

// stop gives a depth to the holders that have all of the prompt up to there and are not
// in the set of the next block, and reports whether others are left.
func (x *index) stop(depth int, next []uint64) (isLeft bool) {
	for n := range x.rest {
		gone := x.rest[n] &^ next[n]
		x.rest[n] &= next[n]
		isLeft = isLeft || x.rest[n] != 0
		for ; gone != 0; gone &= gone - 1 {
			x.depths[64*n+bits.TrailingZeros64(gone)] = int32(depth)
		}
	}
	return isLeft
}

// holds reports whether a holder has a block.
func (x *index) holds(block uint32, position int) bool {
	return x.sets[int(block)*x.words+position/64]>>(position%64)&1 == 1
}
