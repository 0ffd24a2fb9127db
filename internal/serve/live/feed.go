package live

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/patchbay-ai/patchbay/internal/see/calls"
)

// maxReaders is how many readers a feed has at a time.
const maxReaders = 32

// The reasons to refuse a reader.
var (
	ErrReaders = errors.New("too many readers of the live feed")
	ErrClosed  = errors.New("the gateway is shutting down")
)

// Feed tells its readers about the state of the gateway once a second, and about
// changes at once. A slow reader misses snapshots and old changes; nobody waits
// for it.
type Feed struct {
	sampler *Sampler
	// render makes the snapshot, once for all readers who see the words of errors, and once
	// for the others.
	render func(now time.Time, words bool) []byte

	mu       sync.Mutex
	readers  map[*Reader]struct{}
	closed   bool
	snapshot map[bool][]byte // the latest, with words and without, while somebody reads
	taken    uint64          // the number of the snapshot
	changes  [maxChanges]Change
	sequence uint64 // of the latest change
	version  int
	level    calls.Level
}

// NewFeed returns a feed of the snapshots that render makes. Run runs it.
func NewFeed(sampler *Sampler, render func(now time.Time, words bool) []byte) *Feed {
	return &Feed{sampler: sampler, render: render, readers: map[*Reader]struct{}{}}
}

// Run samples the counts and makes snapshots, once a second, until ctx ends.
func (f *Feed) Run(ctx context.Context) {
	everySecond(ctx, func(now time.Time) {
		f.sampler.sample(now)
		f.publish(now)
	})
}

// publish makes a snapshot if anybody wants one.
func (f *Feed) publish(now time.Time) {
	snapshot := f.wantedSnapshots()
	if len(snapshot) == 0 {
		return
	}
	for words := range snapshot {
		snapshot[words] = f.render(now, words)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.snapshot = snapshot
	f.taken++
	for r := range f.readers {
		if r.Snapshots {
			r.wake()
		}
	}
}

// wantedSnapshots returns an entry for each snapshot that somebody wants: with words, or
// without.
func (f *Feed) wantedSnapshots() map[bool][]byte {
	f.mu.Lock()
	defer f.mu.Unlock()
	wanted := map[bool][]byte{}
	for r := range f.readers {
		if r.Snapshots {
			wanted[r.Words] = nil
		}
	}
	if len(wanted) == 0 {
		f.snapshot = nil
	}
	return wanted
}

// Close ends every reader and allows no more.
func (f *Feed) Close() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.closed = true
	for r := range f.readers {
		f.drop(r)
	}
}

func (f *Feed) drop(r *Reader) {
	if _, there := f.readers[r]; there {
		delete(f.readers, r)
		close(r.ended)
	}
}

// Reader is somebody who reads a feed.
type Reader struct {
	ReaderOptions
	feed  *Feed
	wakes chan struct{}
	ended chan struct{}
	taken uint64 // the snapshot that it has
}

// ReaderOptions are the wishes of a reader.
type ReaderOptions struct {
	Snapshots, Changes bool
	// Words includes the texts of backends' errors.
	Words bool
	// After is the number of the last change that the reader has; nil means that
	// changes from now on are wanted.
	After *uint64
}

// Read adds a reader, who calls Close at the end.
func (f *Feed) Read(options ReaderOptions) (*Reader, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case f.closed:
		return nil, ErrClosed
	case len(f.readers) >= maxReaders:
		return nil, ErrReaders
	}
	r := &Reader{ReaderOptions: options, feed: f, wakes: make(chan struct{}, 1), ended: make(chan struct{}),
		taken: f.taken}
	if options.After == nil {
		now := f.sequence
		r.After = &now
	} else {
		after := min(*options.After, f.sequence)
		r.After = &after
	}
	f.readers[r] = struct{}{}
	r.wake() // there may be changes since
	return r, nil
}

// Close ends the reading.
func (r *Reader) Close() {
	r.feed.mu.Lock()
	defer r.feed.mu.Unlock()
	r.feed.drop(r)
}

// Ready returns a channel that has a token when there may be news.
func (r *Reader) Ready() <-chan struct{} { return r.wakes }

// Ended returns a channel that is closed when the feed has ended.
func (r *Reader) Ended() <-chan struct{} { return r.ended }

func (r *Reader) wake() {
	select {
	case r.wakes <- struct{}{}:
	default:
	}
}

// News holds the changes that a reader has not seen yet.
type News struct {
	Changes []Change
	// Missed counts the changes that are too long ago.
	Missed uint64
	// Snapshot is the latest, nil where the reader has it.
	Snapshot []byte
}

// News returns the changes since its last call.
func (r *Reader) News() News {
	f := r.feed
	f.mu.Lock()
	defer f.mu.Unlock()
	var news News
	if r.Snapshots && r.taken != f.taken {
		r.taken, news.Snapshot = f.taken, f.snapshot[r.Words]
	}
	if !r.Changes {
		return news
	}
	from := *r.After + 1
	if oldest := f.sequence - min(f.sequence, maxChanges) + 1; from < oldest {
		news.Missed, from = oldest-from, oldest
	}
	for n := from; n <= f.sequence; n++ {
		news.Changes = append(news.Changes, f.changes[n%maxChanges])
	}
	*r.After = f.sequence
	return news
}
