package residency_test

import (
	"os"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/patchbay-ai/patchbay/internal/hosts/fleet"
	"github.com/patchbay-ai/patchbay/internal/hosts/residency"
	"github.com/patchbay-ai/patchbay/internal/testing/fleettest"
)

// day is what became of the requests of a day.
type day struct {
	loads, least, waited int
	waits                time.Duration
}

// live sends the requests of one day to three hosts with room for two models each, which load
// a model in 20 s.
func live(t *testing.T, requests []*fleettest.Request) (d day) {
	const hosts, room = 3, 2
	d.least = fleettest.LeastLoads(requests, hosts*room)
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, residency.Options{})
		defer r.end()
		places := map[string][]*fleet.Instance{}
		for _, request := range requests {
			if model := request.Model; places[model] == nil {
				for n := range hosts {
					m := r.add(strconv.Itoa(n), model, newEngine(20*time.Second), residency.Rules{Room: room})
					places[model] = append(places[model], m.Place())
				}
			}
		}
		began := time.Now()
		var all sync.WaitGroup
		var mu sync.Mutex
		for _, request := range requests {
			<-time.After(time.Until(began.Add(time.Duration(request.At * float64(time.Second)))))
			all.Go(func() {
				from := places[request.Model]
				asked := time.Now()
				preferred := r.fleet.Preferred(from, false, false, asked)
				takes := time.Duration(request.Tokens)*160*time.Microsecond + time.Duration(request.Outputs)*20*time.Millisecond
				if err := r.use(r.keeper.Model(from[preferred[0]]), takes); err != nil {
					t.Error(err)
				}
				if wait := time.Since(asked) - takes; wait > 0 {
					mu.Lock()
					d.waited++
					d.waits += wait
					mu.Unlock()
				}
			})
		}
		all.Wait()
		for _, s := range r.keeper.States(time.Now()) {
			d.loads += int(s.Counts.Loads)
		}
	})
	return d
}

// TestKeptModelsOfADayAreSeldomLoaded lets ten models be used for some days, usual ones and
// such with more sessions, and compares how often they are loaded with the best plan that
// knows what will come. PATCHBAY_DAYS=10 is a longer trial.
func TestKeptModelsOfADayAreSeldomLoaded(t *testing.T) {
	t.Parallel()
	const most = 1.3
	days, sessions := uint64(2), []float64{2}
	if asked, err := strconv.ParseUint(os.Getenv("PATCHBAY_DAYS"), 10, 8); err == nil {
		days, sessions = asked, []float64{0.5, 1, 1.5, 2}
	}
	for _, busy := range sessions {
		t.Run(strconv.FormatFloat(busy, 'g', -1, 64), func(t *testing.T) {
			t.Parallel()
			var sum day
			requests := 0
			for seed := range days {
				all := fleettest.Day(seed, busy)
				requests += len(all)
				d := live(t, all)
				sum.loads += d.loads
				sum.least += d.least
				sum.waited += d.waited
				sum.waits += d.waits
			}
			t.Logf("%d requests: %d loads, %.2f of the %d of the best plan; %d waited, %.1f s on average", requests, sum.loads, float64(sum.loads)/float64(sum.least), sum.least, sum.waited, sum.waits.Seconds()/float64(max(sum.waited, 1)))
			if float64(sum.loads) > most*float64(sum.least) {
				t.Errorf("models were loaded %d times, by the best plan %d", sum.loads, sum.least)
			}
		})
	}
}
