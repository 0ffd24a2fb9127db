package fleet

// recency orders the blocks that one instance holds by their last use. Blocks are numbers
// of the index. The entries lie in one slice and refer to each other by position. The
// garbage collector has nothing to follow, and a block takes 20 bytes where a map and a
// list would take 100.
type recency struct {
	entries []recent // a ring; the first is no block and lies between newest and oldest
	buckets []uint32 // where the entries of blocks with the same hash begin; a power of two
	unused  uint32   // the first of the entries that are not in use, linked by next; 0 is none
	count   int
}

type recent struct{ block, older, newer, next uint32 }

func newRecency() recency {
	return recency{entries: make([]recent, 1), buckets: make([]uint32, 8)}
}

// use makes a block the newest, and reports whether it was not held before.
func (r *recency) use(block uint32) (isNew bool) {
	at := *r.find(block)
	if isNew = at == 0; isNew {
		at = r.add(block)
	} else {
		r.unlink(at)
	}
	newest := r.entries[0].older
	r.entries[at].older, r.entries[at].newer = newest, 0
	r.entries[newest].newer = at
	r.entries[0].older = at
	return isNew
}

// oldest returns the block that was not used for the longest time. There must be one.
func (r *recency) oldest() uint32 { return r.entries[r.entries[0].newer].block }

// remove takes a block out that is held.
func (r *recency) remove(block uint32) {
	place := r.find(block)
	at := *place
	r.unlink(at)
	*place = r.entries[at].next
	r.entries[at].next, r.unused = r.unused, at
	r.count--
}

// find returns the place of the number of a block's entry. The number there is 0 if the
// entry is missing.
func (r *recency) find(block uint32) *uint32 {
	place := r.bucket(block)
	for *place != 0 && r.entries[*place].block != block {
		place = &r.entries[*place].next
	}
	return place
}

// bucket returns where the entries begin that have the hash of a block.
func (r *recency) bucket(block uint32) *uint32 {
	return &r.buckets[block*2654435769>>7&uint32(len(r.buckets)-1)] // spread by the golden ratio
}

// add returns the entry of a block that is new, which is not in the ring yet.
func (r *recency) add(block uint32) uint32 {
	if r.count++; r.count > len(r.buckets) {
		r.buckets = make([]uint32, 2*len(r.buckets))
		for at := r.entries[0].newer; at != 0; at = r.entries[at].newer {
			place := r.bucket(r.entries[at].block)
			*place, r.entries[at].next = at, *place
		}
	}
	at := r.unused
	if at == 0 {
		at = uint32(len(r.entries))
		r.entries = append(r.entries, recent{})
	} else {
		r.unused = r.entries[at].next
	}
	place := r.bucket(block)
	*place, r.entries[at] = at, recent{block: block, next: *place}
	return at
}

func (r *recency) unlink(at uint32) {
	e := r.entries[at]
	r.entries[e.older].newer = e.newer
	r.entries[e.newer].older = e.older
}
