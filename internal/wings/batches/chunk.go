package batches

import (
	"errors"
	"fmt"
	"slices"

	"github.com/patchbay-ai/patchbay/internal/wings/batches/files"
)

// chunk is a part of the lines, which this process has leased. mu of the job guards the fields that
// change.
type chunk struct {
	*lease

	number int
	left   int // lines that have not ended
	counts Counts
	// isComplete is true if all lines have ended.
	isComplete bool
}

// nextChunk leases a chunk that no gateway has, nil if there is none now. isDone reports that all
// lines have ended.
func (j *job) nextChunk(b Batch) (c *chunk, isDone bool, err error) {
	leases, err := j.engine.leasesOf(j.ctx, j.id)
	if err != nil {
		return nil, false, err
	}
	isDone = true
	for number := range b.Chunks {
		seen := leases[chunkName(number)]
		if seen.IsComplete {
			continue
		}
		isDone = false
		if seen.isHeld {
			continue
		}
		c, err := j.takeChunk(b, number, seen.version)
		if errors.Is(err, errTaken) {
			continue
		}
		return c, false, err
	}
	return nil, isDone, nil
}

// takeChunk leases a chunk until its lines have ended or the job gives up its chunks. If another
// gateway had it, its answers are read again.
func (j *job) takeChunk(b Batch, number int, seen int64) (*chunk, error) {
	c := &chunk{number: number, counts: j.found[number]}
	var err error
	c.lease, err = j.engine.take(j.holding, j.id, chunkName(number), seen, func() leased {
		j.mu.Lock()
		defer j.mu.Unlock()
		return leased{Counts: c.counts, IsComplete: c.isComplete}
	})
	if err != nil {
		return nil, err
	}
	j.leasing.Go(func() {
		c.keep()
		j.drop(c)
	})
	if seen > 0 {
		if err := j.readJournals(b); err != nil {
			return nil, err
		}
	}
	left := 0
	for _, isDone := range j.done[number*b.ChunkLines : min((number+1)*b.ChunkLines, b.Lines)] {
		if !isDone {
			left++
		}
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	c.counts, c.left = j.found[number], left
	c.checkComplete()
	return c, nil
}

// checkComplete ends the lease if no line is left. The lock of the job is held.
func (c *chunk) checkComplete() {
	if c.left == 0 {
		c.isComplete = true
		c.cancel()
	}
}

// drop removes the lines of a chunk that is not leased any more from those that run next.
func (j *job) drop(c *chunk) {
	j.mu.Lock()
	defer j.mu.Unlock()
	left := j.windowed
	window := slices.DeleteFunc(j.window, func(p *pending) bool {
		if p.chunk == c {
			left -= len(p.body)
		}
		return p.chunk == c
	})
	j.setWindow(window, left)
	j.signal()
}

// feed gives out the lines of a chunk.
func (j *job) feed(b Batch, c *chunk, content *files.Content) error {
	first := c.number * b.ChunkLines
	reader := newLineReader(content.From(b.Chunks[c.number]), b.Chunks[c.number], int(j.engine.o.LongestLine()))
	for number := first; number < min(first+b.ChunkLines, b.Lines); number++ {
		if !j.awaitRead(c, reader) {
			return nil
		}
		if err := j.readLine(b, c, reader, number); err != nil {
			return err
		}
	}
	return nil
}

// readLine reads the next line of a chunk, and adds it to the lines that run next if it has
// no answer. The caller has the turn to read. readLine ends the turn, whatever the line is
// like.
func (j *job) readLine(b Batch, c *chunk, from *lineReader, number int) error {
	defer j.engine.ahead.reading.Unlock()
	text, _, err := from.next()
	if err != nil {
		return fmt.Errorf("line %d of the batch cannot be read: %w", number+1, err)
	}
	if j.done[number] {
		return nil
	}
	found, fault := parseLine(text, b.Endpoint)
	if fault != nil {
		return fmt.Errorf("line %d of the batch is another one than it was: %s", number+1, fault.Said)
	}
	found.number = number
	j.mu.Lock()
	defer j.mu.Unlock()
	if !j.stopping && c.ctx.Err() == nil {
		j.setWindow(append(j.window, &pending{line: found, chunk: c}), j.windowed+len(found.body))
		j.engine.nudge()
	}
	return nil
}
