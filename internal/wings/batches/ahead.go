package batches

import (
	"context"
	"sync"
)

const (
	// defaultAhead is how many bytes of lines wait in memory together by default.
	defaultAhead = 64 << 20
	// heavyAtOnce is how many batches are checked or get their results at a time. Each of
	// them takes memory by the number of its lines.
	heavyAtOnce = 4
)

// ahead bounds the memory of the lines that were read and have not ended. Owners share it:
// the many batches of one owner leave room for the batches of others.
type ahead struct {
	most func() int64
	// reading is held by whoever reads a line: its length is known only then.
	reading sync.Mutex
	heavy   chan struct{}

	mu   sync.Mutex
	held map[string]int64 // by scope, of owners who have lines
}

func newAhead(most func() int64) *ahead {
	if most == nil {
		most = func() int64 { return defaultAhead }
	}
	return &ahead{most: most, heavy: make(chan struct{}, heavyAtOnce), held: map[string]int64{}}
}

// add notes that the lines of an owner take more memory, or less.
func (a *ahead) add(scope string, bytes int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.held[scope] += int64(bytes); a.held[scope] == 0 {
		delete(a.held, scope)
	}
}

// hasRoom reports whether an owner may have one more line in memory: there is none, or they
// take less than the owner's part.
func (a *ahead) hasRoom(scope string) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	own := a.held[scope]
	return own == 0 || own < a.most()/int64(len(a.held))
}

// enterHeavy waits for a turn at work that takes memory by the number of lines. The
// function leave ends the turn.
func (a *ahead) enterHeavy(ctx context.Context) (leave func(), err error) {
	select {
	case a.heavy <- struct{}{}:
		return func() { <-a.heavy }, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// setWindow changes the lines that may run next, with their sum of bytes. The lock is held.
func (j *job) setWindow(window []*pending, bytes int) {
	j.engine.ahead.add(j.scope, bytes-j.windowed)
	j.window, j.windowed = window, bytes
}

// mayRead reports whether there is room for one more line in the window, and in the memory of
// the owner.
func (j *job) mayRead() bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	if len(j.window) > 0 && (len(j.window) >= windowLines || j.windowed >= windowBytes) {
		return false
	}
	j.isCrowded = !j.engine.ahead.hasRoom(j.scope)
	return !j.isCrowded
}

// awaitRead waits until a line of a chunk may be read. It returns true with the turn to read,
// and false where no line is to be read any more.
func (j *job) awaitRead(c *chunk, from *lineReader) bool {
	for !j.shouldStop() && c.ctx.Err() == nil {
		j.engine.ahead.reading.Lock()
		if j.mayRead() {
			return true
		}
		j.engine.ahead.reading.Unlock()
		from.text = nil // it may be as long as the longest line
		j.wait(pollEvery)
	}
	return false
}
