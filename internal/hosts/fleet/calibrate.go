package fleet

const (
	// firstCapacity is how many bytes of prompts an instance is believed to have cached
	// before anything is known: a quarter of a million tokens.
	firstCapacity = 1 << 20
	maxCapacity   = 1 << 40
	// grain is the difference between cached and expected tokens that counts as none,
	// beside a block of the index: engines have blocks of their own.
	grain = 2048
	// shrink and grow are the changes of the capacity by an answer with less or more cached
	// than expected. More is seldom seen: only where a prompt comes by chance to an
	// instance that was believed to have forgotten it.
	shrink = 0.04
	grow   = 0.15
	// missesOfEmpty is the number of answers in a row with nothing cached, where much
	// was expected, that make a cache count as emptied.
	missesOfEmpty = 3
)

// calibrate compares the cached part of a prompt that the answer reports with the part
// that the index expected, and corrects the believed size of the cache.
func (i *Instance) calibrate(c *Call, answer Answer) {
	if answer.PromptTokens <= 0 || answer.CachedTokens < 0 || answer.CachedTokens > answer.PromptTokens || c.size == 0 {
		return
	}
	if i.countsCached = i.countsCached || answer.CachedTokens > 0; !i.countsCached {
		return // many backends write 0 and count nothing
	}
	got := float64(answer.CachedTokens) / float64(answer.PromptTokens) * float64(c.size)
	expected := float64(blocksEnd(c.depth))
	slack := float64(grain + blockSize(c.depth))
	switch {
	case got < expected-slack:
		i.cache.capacity *= 1 - shrink
	case got > expected+slack && i.cache.isFull(): // it has forgotten something
		i.cache.capacity = min(i.cache.capacity*(1+grow), maxCapacity)
	}
	if answer.CachedTokens > 0 || expected <= 2*slack {
		i.misses = 0
		return
	}
	if i.misses++; i.misses == missesOfEmpty {
		i.clear()
		i.misses = 0
	}
}
