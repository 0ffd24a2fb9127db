package memory

import (
	"runtime/debug"
	"runtime/metrics"
)

const (
	// quietHeap is the size to which the heap grows before it is collected. Go by itself collects
	// a heap that has doubled. A gateway has a few megabytes that stay, so that the collector
	// would run every 2,000 requests and take a tenth of the processor time of short ones.
	quietHeap = 32 << 20
	// quietShare is the most that quietHeap may be of the limit.
	quietShare = 4
	// usualGrowth is GOGC where nobody has set it.
	usualGrowth = 100
)

// pace decides how much the heap grows before the collector runs.
type pace struct {
	growth uint64 // GOGC as it was set last
	off    bool   // the environment sets it
}

// follow sets the growth until the next collection, unless somebody else has set another one. A
// collection must have ended.
func (p *pace) follow(limit int64) {
	if p.off {
		return
	}
	samples := []metrics.Sample{
		{Name: "/gc/gogc:percent"}, {Name: "/gc/heap/live:bytes"},
		{Name: "/gc/scan/stack:bytes"}, {Name: "/gc/scan/globals:bytes"},
	}
	metrics.Read(samples)
	alive, roots := samples[1].Value.Uint64(), samples[2].Value.Uint64()+samples[3].Value.Uint64()
	if samples[0].Value.Uint64() == p.growth {
		p.set(growthOf(alive, roots, uint64(limit)))
	}
}

func (p *pace) set(growth uint64) {
	if growth != p.growth { // setting it stops the program for a moment
		debug.SetGCPercent(int(growth))
		p.growth = growth
	}
}

// growthOf returns the growth for a heap of which so many bytes are alive, in hundreds. The
// collector lets the heap grow by so many percent of what it has to scan, which are the roots, too.
func growthOf(alive, roots, limit uint64) uint64 {
	quiet := min(quietHeap, limit/quietShare)
	if alive == 0 || alive >= quiet {
		return usualGrowth
	}
	return max((quiet-alive)/(alive+roots)*100, usualGrowth)
}
