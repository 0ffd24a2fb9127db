package simulator

// bits collects numbers of any width, the highest bit first.
type bits struct {
	out  []byte
	free int // bits of the last byte that are not used yet
}

func (b *bits) put(value uint64, width int) {
	for width > 0 {
		if b.free == 0 {
			b.out = append(b.out, 0)
			b.free = 8
		}
		n := min(width, b.free)
		piece := value >> (width - n) & (1<<n - 1)
		b.free -= n
		width -= n
		b.out[len(b.out)-1] |= byte(piece << b.free)
	}
}

func (b *bits) length() int { return 8*len(b.out) - b.free }
