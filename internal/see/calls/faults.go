package calls

import (
	"cmp"
	"slices"
	"strings"
	"sync"
	"time"
)

const (
	// degradedFrom is the number of errors that makes a component degraded, for
	// degradedFor after the latest of them.
	degradedFrom = 10
	degradedFor  = 2 * time.Minute
	// faultsForget is the time until a component that stopped failing is forgotten.
	faultsForget = 5 * time.Minute
	// maxComponents bounds the list; the gateway has far fewer.
	maxComponents = 64
	maxErrorText  = 200
)

// Fault describes the errors of one operation of a part of monitoring.
type Fault struct {
	Component, Operation string
	Count                int64
	LastError            string
	LastOccurred         time.Time
}

func (f *Fault) degraded(now time.Time) bool {
	return f.Count >= degradedFrom && now.Sub(f.LastOccurred) < degradedFor
}

// FaultStats are the faults of all parts.
type FaultStats struct {
	Active, Degraded int
	Total            int64
	Faults           []Fault
}

type faultKey struct{ component, operation string }

// faults are the parts of monitoring that reported errors.
type faults struct {
	mu    sync.Mutex
	known map[faultKey]*Fault
}

// note counts errors of a component. The text must hold no secret and no address.
func (f *faults) note(component, operation, text string, count int64, now time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	key := faultKey{component, operation}
	fault := f.known[key]
	if fault == nil {
		if len(f.known) >= maxComponents {
			return
		}
		if f.known == nil {
			f.known = map[faultKey]*Fault{}
		}
		fault = &Fault{Component: component, Operation: operation}
		f.known[key] = fault
	}
	fault.Count += count
	fault.LastError = strings.Clone(text[:min(len(text), maxErrorText)])
	fault.LastOccurred = now
}

// stats returns the current faults and drops the finished ones.
func (f *faults) stats(now time.Time) FaultStats {
	f.mu.Lock()
	defer f.mu.Unlock()
	var s FaultStats
	for key, fault := range f.known {
		if now.Sub(fault.LastOccurred) >= faultsForget {
			delete(f.known, key)
			continue
		}
		s.Active++
		s.Total += fault.Count
		if fault.degraded(now) {
			s.Degraded++
		}
		s.Faults = append(s.Faults, *fault)
	}
	slices.SortFunc(s.Faults, func(a, b Fault) int {
		return cmp.Or(cmp.Compare(a.Component, b.Component), cmp.Compare(a.Operation, b.Operation))
	})
	return s
}

func (f *faults) reset(component, operation string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.known, faultKey{component, operation})
}

func (f *faults) clear() {
	f.mu.Lock()
	defer f.mu.Unlock()
	clear(f.known)
}
