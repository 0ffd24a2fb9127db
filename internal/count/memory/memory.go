// Package memory decides whether there is memory for more requests, and how callers share an
// amount that is scarce, such as the memory for bodies or the space for uploads.
package memory

import (
	"context"
	"math"
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"sync/atomic"
	"time"
)

const (
	// Memory is short above highMark, where the garbage collector already runs very
	// often, until it is below lowMark. The distance keeps the state from changing
	// with every request.
	highMark = 0.90
	lowMark  = 0.80
	// checkEvery is short against the time that a burst takes to fill memory, and long
	// against the microseconds of one look.
	checkEvery = 50 * time.Millisecond
	// collectEvery bounds how often Run has memory collected while it is short.
	collectEvery = time.Second
	// bodyShare is the part of the limit for all bodies of requests together, and for
	// the values made from them. The rest is for answers, connections, the program
	// itself, and garbage that the collector has not freed yet.
	bodyShare = 0.5
)

// Watch detects when the program is about to run out of memory. New requests are refused
// then, while running ones continue. It also says how much of the memory the bodies of
// requests may take.
type Watch struct {
	// defaultLimit is the limit of the environment, in force where none is configured.
	defaultLimit int64
	limit        atomic.Int64
	// changed wakes Run, which alone updates short.
	changed chan struct{}
	short   atomic.Bool
	bodies  Room
}

// New sets the limit that the collector works towards and returns the watch of it. Zero
// takes the limit that GOMEMLIMIT sets and, without that, a share of the memory of the
// container or the machine; with GOMEMLIMIT=off memory is never short.
func New(limit int64) *Watch {
	m := &Watch{defaultLimit: debug.SetMemoryLimit(-1), changed: make(chan struct{}, 1)}
	if m.defaultLimit == math.MaxInt64 && os.Getenv("GOMEMLIMIT") == "" {
		m.defaultLimit = detectLimit(os.DirFS("/"))
	}
	m.SetLimit(limit)
	return m
}

// Bodies returns the memory for the bodies of requests and of large answers, which
// callers share. A nil Watch has no bound for it, and returns nil.
func (m *Watch) Bodies() *Room {
	if m == nil {
		return nil
	}
	return &m.bodies
}

// SetLimit changes the limit, as New sets it, while the program runs.
func (m *Watch) SetLimit(limit int64) {
	if limit <= 0 {
		limit = m.defaultLimit
	}
	if m.limit.Swap(limit) == limit {
		return
	}
	debug.SetMemoryLimit(limit)
	bodies := int64(Unlimited)
	if limit != math.MaxInt64 {
		bodies = int64(bodyShare * float64(limit))
	}
	m.bodies.SetLimit(bodies)
	select {
	case m.changed <- struct{}{}:
	default: // Run has not seen the change before this one
	}
}

// Limit returns the limit, math.MaxInt64 where there is none.
func (m *Watch) Limit() int64 { return m.limit.Load() }

// Short reports whether memory is short.
func (m *Watch) Short() bool { return m.short.Load() }

// Run watches until the context ends. It also paces the collector.
func (m *Watch) Run(ctx context.Context) {
	tick := time.NewTicker(checkEvery)
	defer tick.Stop()
	collector := pace{growth: usualGrowth, off: os.Getenv("GOGC") != ""}
	defer func() { collector.set(usualGrowth) }()
	var cycles uint64       // of the collector, at the last look
	var collected time.Time // when Run had memory collected
	for {
		ticks := tick.C
		if m.limit.Load() == math.MaxInt64 {
			ticks = nil // without a limit there is nothing to check
			tick.Stop()
		}
		select {
		case <-ctx.Done():
			return
		case <-m.changed:
			tick.Reset(checkEvery)
		case <-ticks:
		}
		before := cycles
		cycles = collections()
		m.update(used())
		if cycles != before {
			collector.follow(m.limit.Load())
		}
		// Refusals allocate so little that the collector may not run for minutes. Until
		// it has run, the garbage of ended requests counts as used.
		if m.Short() && cycles == before && time.Since(collected) >= collectEvery {
			runtime.GC()
			cycles, collected = collections(), time.Now()
			m.update(used())
		}
	}
}

func (m *Watch) update(used uint64) {
	share := float64(used) / float64(m.limit.Load())
	switch {
	case share > highMark:
		m.short.Store(true)
	case share < lowMark:
		m.short.Store(false)
	}
}

// used returns the bytes that count against the limit: all that the runtime has mapped
// and not given back.
func used() uint64 {
	samples := []metrics.Sample{
		{Name: "/memory/classes/total:bytes"},
		{Name: "/memory/classes/heap/released:bytes"},
		{Name: "/memory/classes/heap/free:bytes"},
	}
	metrics.Read(samples)
	return samples[0].Value.Uint64() - samples[1].Value.Uint64() - samples[2].Value.Uint64()
}

// collections returns how often the garbage collector has run.
func collections() uint64 {
	sample := []metrics.Sample{{Name: "/gc/cycles/total:gc-cycles"}}
	metrics.Read(sample)
	return sample[0].Value.Uint64()
}
