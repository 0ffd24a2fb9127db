package fleettest

import (
	"math"
	"math/rand/v2"
	"slices"
)

// habit is how a model is used over a day, in seconds and hours.
type habit struct {
	model      string
	from, till float64 // the hours of use; from may be later than till
	sessions   float64 // how many begin in such an hour
	length     float64 // how many requests a session has on average
	pause      float64 // between two of its requests, on average
}

// habits describe ten models of a company: some are used all day, some at work, some by
// colleagues elsewhere in the world, some by programs at night, some now and then.
var habits = []habit{
	{"assistant", 7, 23, 6, 10, 60},
	{"titles", 7, 23, 10, 4, 90},
	{"search", 0, 24, 5, 12, 45},
	{"coder", 9, 18, 6, 14, 40},
	{"vision", 9, 17, 2, 8, 50},
	{"translator", 22, 10, 4, 10, 60},
	{"reports", 1, 5, 2, 40, 20},
	{"stories", 16, 23, 2, 12, 60},
	{"old", 8, 18, 0.5, 3, 60},
	{"trial", 0, 24, 0.25, 6, 120},
}

func modelsOfADay() (names []string) {
	for _, h := range habits {
		names = append(names, h.model)
	}
	return names
}

// Day returns the requests of one day for ten models, which are used in sessions; busy times
// as many as on a usual day.
func Day(seed uint64, busy float64) []*Request {
	rng := source(seed, 9)
	var all []*Request
	for _, h := range habits {
		sessions := busy * h.sessions
		for t := rng.ExpFloat64() / sessions; t < 24; t += rng.ExpFloat64() / sessions {
			if h.isOn(t) {
				all = append(all, h.session(t*3600, rng)...)
			}
		}
	}
	slices.SortFunc(all, func(a, b *Request) int {
		if a.At < b.At {
			return -1
		}
		return 1
	})
	return all
}

// isOn reports whether the model is used at an hour.
func (h *habit) isOn(hour float64) bool {
	if h.from < h.till {
		return hour >= h.from && hour < h.till
	}
	return hour >= h.from || hour < h.till
}

// session returns the requests of a session that begins at a time.
func (h *habit) session(at float64, rng *rand.Rand) (all []*Request) {
	for range 1 + int(rng.ExpFloat64()*(h.length-1)) {
		all = append(all, &Request{At: at, Tokens: 200 + int(rng.ExpFloat64()*1500),
			Outputs: 20 + int(rng.ExpFloat64()*150), Model: h.model})
		at += 5 + rng.ExpFloat64()*(h.pause-5)
	}
	return all
}

// LeastLoads returns the least number of loads of any plan, even one that knows the
// future, if so many models are in memory at a time and requests are answered in order:
// no plan is better than to unload the model that is needed last (Belady). The host of a
// model does not matter for that, as each request can go to every host.
func LeastLoads(requests []*Request, room int) (loads int) {
	next := make([]int, len(requests)) // when the model of a request is asked for again
	seen := map[string]int{}
	for n, r := range slices.Backward(requests) {
		next[n] = math.MaxInt
		if again, asked := seen[r.Model]; asked {
			next[n] = again
		}
		seen[r.Model] = n
	}
	resident := map[string]int{}
	for n, r := range requests {
		if _, isThere := resident[r.Model]; !isThere {
			loads++
			if len(resident) == room {
				last := ""
				for model, needed := range resident {
					if last == "" || needed > resident[last] {
						last = model
					}
				}
				delete(resident, last)
			}
		}
		resident[r.Model] = next[n]
	}
	return loads
}
