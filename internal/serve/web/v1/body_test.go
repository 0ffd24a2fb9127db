package v1

import "testing"

// What a client has announced makes room only in proportion to what it has sent.
func TestBuffersFollowWhatHasArrived(t *testing.T) {
	for _, c := range []struct{ arrived, announced, want int }{
		{0, 0, 1},
		{0, 1000, 1001},
		{0, 30 << 20, smallBuffer},
		{0, -1, 4 << 10},
		{100, 30 << 20, smallBuffer},
		{mediumFrom - 1, 30 << 20, smallBuffer},
		{mediumFrom, 30 << 20, mediumBuffer},
		{4000, 100_000, 100_001},
		{mediumBuffer, 30 << 20, largeBuffer},
		{largeBuffer, 30 << 20, 8 << 20},
		{8 << 20, 30 << 20, 30<<20 + 1},
		{1 << 20, -1, 2 << 20},
		{1000, 999, 4 << 10}, // more than was announced, which the server does not let through
	} {
		if got := nextBuffer(c.arrived, c.announced); got != c.want {
			t.Errorf("%d of %d bytes have arrived: a buffer of %d, want %d", c.arrived, c.announced, got, c.want)
		}
	}
}

func TestBuffersAreUsedAgain(t *testing.T) {
	var b buffers
	for _, c := range []struct{ size, want int }{
		{1000, 1000}, {smallBuffer, smallBuffer}, {smallBuffer + 1, mediumBuffer}, {mediumBuffer + 1, largeBuffer}, {largeBuffer + 1, largeBuffer + 1},
	} {
		for range 2 {
			buffer := b.get(c.size)
			if len(buffer) != 0 || cap(buffer) != c.want {
				t.Errorf("of %d bytes: %d of %d", c.size, len(buffer), cap(buffer))
			}
			b.put(buffer)
		}
	}
	if kept := testing.AllocsPerRun(100, func() { b.put(b.get(mediumBuffer)) }); kept > 0.5 {
		t.Errorf("%v allocations for a buffer that is kept", kept)
	}
}
