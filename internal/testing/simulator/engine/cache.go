package engine

import (
	"container/list"
	"math"
)

// cache keeps the blocks that were used last, the start of a prompt longer than its end.
type cache struct {
	most  int
	order *list.List // the newest in front
	at    map[uint64]*list.Element
}

func newCache(most int) *cache {
	return &cache{most: most, order: list.New(), at: map[uint64]*list.Element{}}
}

// match returns how many of the first blocks are in the cache.
func (c *cache) match(blocks []uint64) (n int) {
	for n < len(blocks) && c.at[blocks[n]] != nil {
		n++
	}
	return n
}

func (c *cache) use(blocks []uint64) {
	for n := len(blocks) - 1; n >= 0; n-- {
		if at := c.at[blocks[n]]; at != nil {
			c.order.MoveToFront(at)
		} else {
			c.at[blocks[n]] = c.order.PushFront(blocks[n])
		}
	}
	for c.order.Len() > c.most {
		delete(c.at, c.order.Remove(c.order.Back()).(uint64))
	}
}

// Bound returns the tokens of all prompts, and how many of them one endless cache would
// have had.
func Bound(prompts func(yield func(tokens int, blocks []uint64) bool), block int) (hit, total int) {
	c := newCache(math.MaxInt)
	for tokens, blocks := range prompts {
		hit += max(min(c.match(blocks)*block, tokens-1), 0)
		total += tokens
		c.use(blocks)
	}
	return hit, total
}
