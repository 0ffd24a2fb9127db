// Package logs makes the program's log: lines for people on a terminal, JSON
// for programs everywhere else, and a level for every logger's name that can be
// changed while the program runs.
package logs

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// Format is the shape of lines.
type Format uint8

// The formats.
const (
	JSON Format = iota
	Text
	Coloured // Text for a terminal that shows colours
)

// New returns a logger that writes lines of at least the given level. The attribute
// NameKey, given by With, names a logger, which then has a level of its own.
func New(w io.Writer, format Format, level slog.Leveler) *slog.Logger {
	levels := newLevels(level.Level())
	return slog.New(&handler{
		out:    &output{w: w, format: format, lines: sync.Pool{New: func() any { return new([]byte) }}},
		levels: levels,
		level:  levels.follow(""),
	})
}

// NameKey is the attribute that names a logger.
const NameKey = "logger"

// Named returns a logger of the given dotted name. The longest configured beginning of its
// name gives it its level.
func Named(log *slog.Logger, name string) *slog.Logger { return log.With(NameKey, name) }

// LevelsOf returns the levels of a logger that New made; of any other, levels
// that nothing follows.
func LevelsOf(log *slog.Logger) *Levels {
	if h, ok := log.Handler().(*handler); ok {
		return h.levels
	}
	return newLevels(slog.LevelInfo)
}

// output is the sink that all loggers write to.
type output struct {
	format Format
	lines  sync.Pool
	panics atomic.Int64 // see Panics

	mu sync.Mutex
	w  io.Writer
}

// append adds a line. It calls functions and not a value, which saves allocating record and
// attributes.
func (o *output) append(line []byte, name string, attrs []slog.Attr, r *slog.Record) []byte {
	switch o.format {
	case Text:
		return appendReadable(line, "", name, attrs, r)
	case Coloured:
		return appendReadable(line, colourOf(r.Level), name, attrs, r)
	}
	return appendJSON(line, name, attrs, r)
}

// handler is one logger.
type handler struct {
	out    *output
	levels *Levels
	level  *slog.LevelVar
	name   string
	group  string
	attrs  []slog.Attr
}

// Enabled reports whether a line of this level is written.
func (h *handler) Enabled(_ context.Context, level slog.Level) bool { return level >= h.level.Level() }

// WithAttrs returns a logger with these attributes on every line.
func (h *handler) WithAttrs(attrs []slog.Attr) slog.Handler {
	next := *h
	next.attrs = slices.Clip(h.attrs)
	for _, a := range attrs {
		if a.Key == NameKey && h.group == "" {
			next.name = a.Value.String()
			next.level = h.levels.follow(next.name)
			continue
		}
		a.Key = h.group + a.Key
		next.attrs = append(next.attrs, a)
	}
	return &next
}

// WithGroup returns a logger that writes the group in front of the names of its attributes.
func (h *handler) WithGroup(name string) slog.Handler {
	next := *h
	next.group += name + "."
	return &next
}

// longestLine is the largest buffer that is kept for the next line.
const longestLine = 16 << 10

// Handle writes one line in one write, or adds it to the lines of a batch.
func (h *handler) Handle(_ context.Context, r slog.Record) error { return h.write(&r, h.attrs) }

// WriteAttrs writes a line with these attributes. The level is not looked at. A line of
// a logger that New made is written without a copy of the attributes, which is why the
// access log calls this and not the logger.
func WriteAttrs(ctx context.Context, log *slog.Logger, at time.Time, level slog.Level, message string,
	attrs []slog.Attr) error {
	r := slog.NewRecord(at, level, message, 0)
	if h, ok := log.Handler().(*handler); ok && len(h.attrs) == 0 && h.group == "" {
		return h.write(&r, attrs)
	}
	r.AddAttrs(attrs...)
	return log.Handler().Handle(ctx, r)
}

// write writes a record with attributes that come before its own.
func (h *handler) write(r *slog.Record, attrs []slog.Attr) error {
	line := h.out.lines.Get().(*[]byte)
	*line = h.out.append((*line)[:0], h.name, attrs, r)
	var err error
	if b, ok := h.out.w.(*Batch); ok {
		b.add(*line, h.name != Access)
	} else {
		h.out.mu.Lock()
		_, err = h.out.w.Write(*line)
		h.out.mu.Unlock()
	}
	if cap(*line) <= longestLine {
		h.out.lines.Put(line)
	}
	return err
}

const (
	// batchDelay is how long a line of a request waits for others at the most.
	batchDelay = 100 * time.Millisecond
	// batchSize is how many bytes wait before they are written at once.
	batchSize = 64 << 10
	// backlogLimit is how many bytes wait while the sink is slow. Later lines are dropped.
	backlogLimit = 1 << 20
	// closeWait is how long Close waits for a sink that takes nothing.
	closeWait = 2 * time.Second
)

// Batch writes lines from a goroutine of its own: no caller waits for the sink. Lines of
// requests are written together, others as soon as the goroutine runs; all in the order of
// arrival.
type Batch struct {
	sink io.Writer
	// format writes the line that says how many lines were dropped.
	format  func(lines int64) []byte
	dropped atomic.Int64
	said    int64 // of the dropped lines, how many the log says

	begun  chan struct{} // the first line of a batch waits
	prompt chan struct{} // asks to write the waiting lines now
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
		r := slog.NewRecord(time.Now(), slog.LevelWarn,
			"log lines were dropped because they were not taken fast enough or could not be written", 0)
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

// run writes waiting lines until Close.
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
	b.mu.Lock() // callers that add a line now wait for their turn to write it
	defer b.mu.Unlock()
	b.closed = true
	b.write(b.waiting)
	b.waiting = nil
}

// wait waits until there are lines to write and reports whether there may be more
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

// Close writes the lines that wait. It gives up on a sink that takes nothing: the program
// must be able to end.
func (b *Batch) Close() {
	b.once.Do(func() { close(b.stop) })
	timer := time.NewTimer(closeWait)
	defer timer.Stop()
	select {
	case <-b.done:
	case <-timer.C:
	}
}
