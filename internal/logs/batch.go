package logs

import (
	"bytes"
	"io"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// batchDelay is how long a line of a request waits for others at the most.
	batchDelay = 100 * time.Millisecond
	// batchSize is how many bytes wait before they are written at once.
	batchSize = 64 << 10
	// backlogLimit is how many bytes wait while the sink is slow. What comes after
	// them is dropped.
	backlogLimit = 1 << 20
	// closeWait is how long Close waits for a sink that takes nothing.
	closeWait = 2 * time.Second
)

// Batch writes lines from a goroutine of its own, so that no caller waits for the
// sink. Lines of requests are written together, others as soon as the goroutine
// runs; all in the order in which they came.
type Batch struct {
	sink io.Writer
	// format writes the line that says how many lines were dropped.
	format  func(lines int64) []byte
	dropped atomic.Int64
	said    int64 // of the dropped lines, how many the log says

	begun  chan struct{} // the first line of a batch waits
	prompt chan struct{} // what waits is to be written now
	stop   chan struct{}
	done   chan struct{}
	once   sync.Once

	mu      sync.Mutex
	waiting []byte
	closed  bool
}

// NewBatched is New for a sink that may be slow, such as a pipe. The lines that the
// loggers write reach it in batches; Close writes the last of them.
func NewBatched(sink io.Writer, format Format, level slog.Leveler) (*slog.Logger, *Batch) {
	b := &Batch{
		sink: sink, begun: make(chan struct{}, 1), prompt: make(chan struct{}, 1),
		stop: make(chan struct{}), done: make(chan struct{}),
	}
	log := New(b, format, level)
	appendLine := log.Handler().(*handler).out.append
	b.format = func(lines int64) []byte {
		r := slog.NewRecord(time.Now(), slog.LevelWarn, "log lines were dropped because they were not taken fast enough or could not be written", 0)
		r.AddAttrs(slog.Int64("lines", lines))
		return appendLine(nil, "", nil, &r)
	}
	go b.run()
	return log, b
}

// Dropped returns a function that counts the lines of a logger that were dropped:
// none unless NewBatched made it.
func Dropped(log *slog.Logger) func() int64 {
	if h, ok := log.Handler().(*handler); ok {
		if b, ok := h.out.w.(*Batch); ok {
			return b.dropped.Load
		}
	}
	return func() int64 { return 0 }
}

// Write adds a line that is to be written as soon as possible.
func (b *Batch) Write(line []byte) (int, error) {
	b.add(line, true)
	return len(line), nil
}

// add adds a line, which is to be written now or with others. It never waits for the
// sink. After Close lines are written at once.
func (b *Batch) add(line []byte, now bool) {
	b.mu.Lock()
	if b.closed {
		b.write(line)
		b.mu.Unlock()
		return
	}
	before := len(b.waiting)
	after := before + len(line)
	if after > backlogLimit {
		b.dropped.Add(1)
		b.mu.Unlock()
		return
	}
	b.waiting = append(b.waiting, line...)
	b.mu.Unlock()
	switch {
	case now || after >= batchSize:
		signal(b.prompt)
	case before == 0:
		signal(b.begun)
	}
}

func signal(to chan<- struct{}) {
	select {
	case to <- struct{}{}:
	default:
	}
}

// run writes what waits until Close.
func (b *Batch) run() {
	defer close(b.done)
	var spare []byte
	for b.wait() {
		b.mu.Lock()
		lines := b.waiting
		b.waiting = spare[:0]
		b.mu.Unlock()
		b.write(lines)
		if spare = lines; cap(spare) > 2*batchSize {
			spare = nil
		}
	}
	b.mu.Lock() // those who add a line now wait for their turn to write it
	defer b.mu.Unlock()
	b.closed = true
	b.write(b.waiting)
	b.waiting = nil
}

// wait waits until something is to be written and tells whether there may be more
// afterwards.
func (b *Batch) wait() bool {
	select {
	case <-b.prompt:
		return true
	case <-b.stop:
		return false
	case <-b.begun:
	}
	timer := time.NewTimer(batchDelay)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-b.prompt:
		return true
	case <-b.stop:
		return false
	}
}

// write writes lines, and then how many were dropped if that is news. Lines that the
// sink does not take are dropped as well.
func (b *Batch) write(lines []byte) {
	if len(lines) > 0 && !b.pass(lines) {
		return
	}
	if dropped := b.dropped.Load(); dropped > b.said && b.pass(b.format(dropped-b.said)) {
		b.said = dropped
	}
}

func (b *Batch) pass(lines []byte) bool {
	n, err := b.sink.Write(lines)
	if err != nil {
		b.dropped.Add(int64(bytes.Count(lines[min(n, len(lines)):], []byte{'\n'})))
	}
	return err == nil
}

// Close writes the lines that wait. It gives up on a sink that takes nothing, so
// that the program can end.
func (b *Batch) Close() {
	b.once.Do(func() { close(b.stop) })
	timer := time.NewTimer(closeWait)
	defer timer.Stop()
	select {
	case <-b.done:
	case <-timer.C:
	}
}
