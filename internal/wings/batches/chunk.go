package batches

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/go-json-experiment/json"

	"github.com/patchbay-ai/patchbay/internal/store/documents"
	"github.com/patchbay-ai/patchbay/internal/wings/batches/files"
)

// chunk is a part of the lines, which this process has leased.
type chunk struct {
	number int
	ctx    context.Context
	cancel context.CancelFunc
	left   int // lines that have not ended
	counts Counts

	mu    sync.Mutex // held while the lease is written
	lease *lease
}

// nextChunk leases a chunk that nobody has, nil where there is none now. isDone says that all
// lines have ended.
func (j *job) nextChunk(b Batch) (c *chunk, isDone bool, err error) {
	docs, err := j.engine.o.Leases.List(j.ctx, documents.Query{Kind: LeaseKind, Scopes: []string{j.id}})
	if err != nil {
		return nil, false, err
	}
	known := make(map[string]documents.Document, len(docs))
	for _, doc := range docs {
		known[doc.ID] = doc
	}
	isDone = true
	for number := range b.Chunks {
		doc, leasedBefore := known[leaseID(j.id, chunkName(number))]
		var state leased
		if leasedBefore {
			if err := json.Unmarshal(doc.Data, &state); err != nil {
				return nil, false, err
			}
		}
		if state.IsComplete {
			continue
		}
		isDone = false
		if leasedBefore && !j.engine.isFree(doc, state) {
			continue
		}
		c, err := j.takeChunk(b, number, doc.Version)
		if errors.Is(err, errTaken) {
			continue
		}
		return c, false, err
	}
	return nil, isDone, nil
}

// takeChunk leases a chunk. Where another gateway had it, its answers are read again.
func (j *job) takeChunk(b Batch, number int, seen int64) (*chunk, error) {
	l, err := j.engine.take(j.ctx, j.id, chunkName(number), seen, j.found[number])
	if err != nil {
		return nil, err
	}
	if seen > 0 {
		if err := j.readJournals(b); err != nil {
			return nil, errors.Join(err, l.release())
		}
	}
	c := &chunk{number: number, lease: l, counts: j.found[number]}
	c.ctx, c.cancel = context.WithCancel(j.ctx)
	first, end := number*b.ChunkLines, min((number+1)*b.ChunkLines, b.Lines)
	for _, isDone := range j.done[first:end] {
		if !isDone {
			c.left++
		}
	}
	j.mu.Lock()
	j.chunks[number] = c
	j.mu.Unlock()
	return c, nil
}

// feed gives out the lines of a chunk.
func (j *job) feed(b Batch, c *chunk, content *files.Content) error {
	if c.left == 0 {
		return j.complete(c)
	}
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
	if !j.stopping {
		j.setWindow(append(j.window, &pending{line: found, chunk: c}), j.windowed+len(found.body))
		j.engine.nudge()
	}
	return nil
}

// keepChunks renews the leases of the chunks until the context ends. A chunk with a lost
// lease ends.
func (j *job) keepChunks(ctx context.Context) {
	j.engine.renewing(ctx, func() {
		j.hold(0)
		j.engine.tell(j.storeServed(), "noting the models of "+j.id)
		j.mu.Lock()
		held := slices.Collect(maps.Values(j.chunks))
		j.mu.Unlock()
		for _, c := range held {
			if err := j.renew(ctx, c); c.isLost(err) {
				j.lose(c)
			}
		}
	})
}

// renew renews the lease of a chunk and tells how far it is.
func (j *job) renew(ctx context.Context, c *chunk) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	j.mu.Lock()
	_, isHeld := j.chunks[c.number]
	state := leased{Holder: j.engine.holder, Counts: c.counts}
	j.mu.Unlock()
	if !isHeld {
		return nil
	}
	return c.lease.put(ctx, state)
}

// isLost reports whether the lease of the chunk is lost, by how its renewal ended.
func (c *chunk) isLost(err error) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.lease.isLost(err)
}

// lose ends a chunk that another gateway has, or may have, taken.
func (j *job) lose(c *chunk) {
	c.cancel()
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.chunks[c.number] == c {
		delete(j.chunks, c.number)
	}
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

// complete notes that all lines of a chunk have ended.
func (j *job) complete(c *chunk) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	defer c.cancel()
	j.mu.Lock()
	delete(j.chunks, c.number)
	state := leased{Counts: c.counts, IsComplete: true}
	j.mu.Unlock()
	defer j.signal()
	err := c.lease.put(context.WithoutCancel(j.ctx), state)
	if errors.Is(err, errTaken) {
		return nil // another gateway finds the answers in the journal
	}
	return err
}

// releaseChunks gives the leased chunks back: others need not wait for them.
func (j *job) releaseChunks() {
	j.mu.Lock()
	held := j.chunks
	j.chunks = map[int]*chunk{}
	j.mu.Unlock()
	for _, c := range held {
		c.cancel()
		c.mu.Lock()
		j.mu.Lock()
		state := leased{Counts: c.counts}
		j.mu.Unlock()
		ctx, cancel := context.WithTimeout(context.WithoutCancel(j.ctx), j.engine.o.Lease)
		err := c.lease.put(ctx, state)
		cancel()
		c.mu.Unlock()
		if err != nil && !errors.Is(err, errTaken) {
			j.engine.o.Log.Warn("the lines of a batch could not be given back; others wait until their lease is over",
				"batch", j.id, "error", err)
		}
	}
}
