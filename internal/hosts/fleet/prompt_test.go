package fleet

import (
	"bytes"
	"encoding/binary"
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// textOf returns bytes that are the same for the same seed, the longer ones with the shorter
// ones at their start.
func textOf(size int, seed uint64) []byte {
	rng := rand.New(rand.NewPCG(seed, 0))
	text := make([]byte, size)
	for n := 0; n+8 <= len(text); n += 8 {
		binary.LittleEndian.PutUint64(text[n:], rng.Uint64())
	}
	return text
}

// TestBlocksDoNotDependOnPieces cuts a text differently.
func TestBlocksDoNotDependOnPieces(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := textOf(rapid.IntRange(0, 40_000).Draw(t, "size"), 1)
		whole, pieces := NewPrompt(&Secret{1}), NewPrompt(&Secret{1})
		whole.Text(text)
		for rest := text; len(rest) > 0; {
			n := rapid.IntRange(1, len(rest)).Draw(t, "piece")
			pieces.Text(rest[:n])
			rest = rest[n:]
		}
		if !slices.Equal(whole.blocks, pieces.blocks) || whole.Size() != pieces.Size() {
			t.Fatal("the same text has other blocks in other pieces")
		}
	})
}

// TestBlocksEndWhereTextsPart compares the blocks of two texts that are equal up to a place.
func TestBlocksEndWhereTextsPart(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := textOf(rapid.IntRange(1, 200_000).Draw(t, "size"), 1)
		at := rapid.IntRange(0, len(text)-1).Draw(t, "parts at")
		other := bytes.Clone(text)
		other[at]++
		a, b := NewPrompt(&Secret{1}), NewPrompt(&Secret{1})
		a.Text(text)
		b.Text(other)
		same := 0
		for same < len(a.blocks) && a.blocks[same] == b.blocks[same] {
			same++
		}
		if blocksEnd(same) > int64(at) || blocksEnd(same+1) <= int64(at) && same < len(a.blocks) {
			t.Fatalf("%d blocks with %d bytes are the same, the texts part at %d", same, blocksEnd(same), at)
		}
		if slices.ContainsFunc(a.blocks[same:], func(block Block) bool { return slices.Contains(b.blocks[same:], block) }) {
			t.Fatal("a block after the difference is the same")
		}
	})
}

func TestLongPromptsHaveFewBlocks(t *testing.T) {
	for _, c := range []struct{ size, blocks int }{{511, 0}, {512, 1}, {8 << 10, 16}, {100 << 10, 59}, {1 << 20, 112}, {64 << 20, 208}} {
		p := NewPrompt(&Secret{1})
		p.Text(make([]byte, c.size))
		if len(p.blocks) != c.blocks {
			t.Errorf("%d bytes have %d blocks, want %d", c.size, len(p.blocks), c.blocks)
		}
		if end := blocksEnd(c.blocks); end > int64(c.size) || end+blockSize(c.blocks) <= int64(c.size) {
			t.Errorf("%d blocks end at %d, the text has %d bytes", c.blocks, end, c.size)
		}
	}
}

// TestBlocksOfOthersDiffer lists what makes prompts with the same text different.
func TestBlocksOfOthersDiffer(t *testing.T) {
	text := textOf(1000, 1)
	plain := func(secret Secret, scope string, parts ...string) Block {
		p := NewPrompt(&secret)
		p.Reset(scope)
		for _, kind := range parts {
			p.Part(kind)
		}
		p.Text(text)
		return p.blocks[0]
	}
	blocks := map[Block]string{}
	for name, block := range map[string]Block{
		"plain":          plain(Secret{1}, ""),
		"another secret": plain(Secret{2}, ""),
		"a tenant":       plain(Secret{1}, "a"),
		"another tenant": plain(Secret{1}, "b"),
		"a message":      plain(Secret{1}, "", "user"),
		"another role":   plain(Secret{1}, "", "system"),
		"two messages":   plain(Secret{1}, "", "system", "user"),
	} {
		if other, known := blocks[block]; known {
			t.Errorf("%s and %s have the same block", name, other)
		}
		blocks[block] = name
		if block>>blockBits != 0 {
			t.Errorf("%s: the block %x has more than %d bits", name, block, blockBits)
		}
	}
	p := NewPrompt(&Secret{1})
	p.Hint("x")
	one := p.hint
	p.Reset("tenant")
	if p.hint != 0 {
		t.Error("the hint is still there after Reset")
	}
	p.Hint("x")
	if p.hint == one {
		t.Error("the hints of two tenants are the same")
	}
}

// TestDataCountsByItsHash adds data that is the same, or differs in one byte.
func TestDataCountsByItsHash(t *testing.T) {
	prompt := func(data []byte, size int) *Prompt {
		p := NewPrompt(&Secret{1})
		p.Data(data, size)
		p.Text(textOf(1000, 2))
		return p
	}
	image := textOf(100_000, 1)
	for _, size := range []int{1, 63, 64, 800, 3200} {
		p := prompt(image, size)
		if p.Size() != int64(size)+1000 {
			t.Errorf("data of the size %d and 1000 bytes of text have %d bytes", size, p.Size())
		}
		if same := prompt(bytes.Clone(image), size); !slices.Equal(p.blocks, same.blocks) {
			t.Errorf("the same data of the size %d has other blocks", size)
		}
		other := bytes.Clone(image)
		other[len(other)/2]++
		if prompt(other, size).blocks[0] == p.blocks[0] {
			t.Errorf("other data of the size %d has the same block", size)
		}
	}
	if p := prompt(image, 0); p.Size() != 1000 {
		t.Errorf("data of no size has %d bytes", p.Size()-1000)
	}
}

// TestPromptsAreUsedAgain reads a text twice with the same prompt.
func TestPromptsAreUsedAgain(t *testing.T) {
	p := NewPrompt(&Secret{1})
	p.Text(textOf(5000, 1))
	first := slices.Clone(p.blocks)
	p.Reset("other")
	p.Text(textOf(3000, 2))
	p.Reset("")
	p.Text(textOf(5000, 1))
	if !slices.Equal(first, p.blocks) || p.Size() != 5000 {
		t.Error("the same text has other blocks the second time")
	}
}
