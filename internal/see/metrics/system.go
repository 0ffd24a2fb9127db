package metrics

import (
	"math"
	"os"
	"runtime"
	"runtime/debug"
	runtimemetrics "runtime/metrics"
	"sync"
	"time"

	"github.com/shirou/gopsutil/v4/cpu"
	"github.com/shirou/gopsutil/v4/process"
)

// system reads the figures of the process and of the machine. The usage of
// processors is a mean over the collection interval; the first ones are means
// over a shorter time.
type system struct {
	started time.Time

	mu      sync.Mutex
	self    *process.Process
	looked  time.Time     // when the processors were read last
	busy    cpu.TimesStat // of the machine, then
	spent   float64       // seconds of the process, then
	process float64
	machine float64
	peak    int
	pause   time.Duration // the longest one that was seen

	measured int
}

// firstReadings is how many readings do not wait for the collection interval.
const firstReadings = 2

func newSystem(started time.Time) *system {
	s := &system{started: started}
	// Where the process cannot be read its figures stay 0.
	s.self, _ = process.NewProcess(int32(os.Getpid()))
	s.readCPU(started)
	return s
}

// systemView is the system at one moment.
type systemView struct {
	heapUsed, heapHeld, otherUsed, limit float64
	pauses                               uint64
	paused, longestPause                 float64
	goroutines, peak, uptime             float64
	processCPU, systemCPU, cpus          float64
}

func (s *system) read(interval time.Duration) systemView {
	samples := []runtimemetrics.Sample{
		{Name: "/memory/classes/heap/objects:bytes"},
		{Name: "/memory/classes/heap/unused:bytes"},
		{Name: "/memory/classes/heap/free:bytes"},
		{Name: "/memory/classes/heap/released:bytes"},
		{Name: "/memory/classes/total:bytes"},
	}
	runtimemetrics.Read(samples)
	of := func(i int) float64 { return float64(samples[i].Value.Uint64()) }
	var gc debug.GCStats
	debug.ReadGCStats(&gc)
	limit := float64(-1)
	if most := debug.SetMemoryLimit(-1); most != math.MaxInt64 {
		limit = float64(most)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	if passed := now.Sub(s.looked); passed >= interval || s.measured < firstReadings && passed >= time.Second {
		s.readCPU(now)
	}
	goroutines := runtime.NumGoroutine()
	s.peak = max(s.peak, goroutines)
	for _, pause := range gc.Pause {
		s.pause = max(s.pause, pause)
	}
	held := of(0) + of(1) + of(2)
	return systemView{
		heapUsed: of(0), heapHeld: held, otherUsed: of(4) - held - of(3), limit: limit,
		pauses: uint64(gc.NumGC), paused: gc.PauseTotal.Seconds(), longestPause: s.pause.Seconds(),
		goroutines: float64(goroutines), peak: float64(s.peak), uptime: now.Sub(s.started).Seconds(),
		processCPU: s.process, systemCPU: s.machine, cpus: float64(runtime.GOMAXPROCS(0)),
	}
}

// readCPU compares the clocks of the processors with the last reading.
func (s *system) readCPU(now time.Time) {
	elapsed := now.Sub(s.looked).Seconds()
	first := s.looked.IsZero()
	s.looked = now
	s.measured++
	if s.self != nil {
		if times, err := s.self.Times(); err == nil {
			spent := times.User + times.System
			if !first && elapsed > 0 {
				s.process = clamp((spent - s.spent) / elapsed / float64(runtime.NumCPU()))
			}
			s.spent = spent
		}
	}
	if all, err := cpu.Times(false); err == nil && len(all) == 1 {
		if !first {
			total, idle := sumOf(&all[0])-sumOf(&s.busy), idleOf(&all[0])-idleOf(&s.busy)
			if total > 0 {
				s.machine = clamp(1 - idle/total)
			}
		}
		s.busy = all[0]
	}
}

func sumOf(t *cpu.TimesStat) float64 {
	return t.User + t.System + t.Nice + t.Irq + t.Softirq + t.Steal + idleOf(t)
}

func idleOf(t *cpu.TimesStat) float64 { return t.Idle + t.Iowait }

func clamp(v float64) float64 { return min(max(v, 0), 1) }
