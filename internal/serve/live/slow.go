package live

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/patchbay-ai/patchbay/internal/hosts/backend"
	"github.com/patchbay-ai/patchbay/internal/plain/say"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
	"github.com/patchbay-ai/patchbay/internal/see/calls"
	"github.com/patchbay-ai/patchbay/internal/see/metrics"
)

const (
	// slowEvery is how many seconds pass between two looks for slow instances.
	slowEvery = 5
	// farSlower is how many times as long the median of an instance is that counts as slow, and
	// stillSlower the one from which it no longer does.
	farSlower, stillSlower = 2, 1.5
	// fewest is how many calls a comparison needs at both instances. Below enough of them every
	// call must be slower; from there on the fastest quarter is compared with the slowest.
	fewest, enough = 5, 20
	// marked is how many times as much a cause must be at the slow instance to be one.
	marked = 1.5
	// lessCached is by how much the share of cached tokens must be lower to be a cause.
	lessCached = 0.2
)

// slowWindows are the spans that instances are compared over, in seconds. The shortest one with
// calls enough decides, so an engine that becomes slow is found within seconds.
var slowWindows = []int64{10, minute, 300}

// compared are the lengths of time by which instances are compared, with the least difference
// that matters. A first token says most. Whole calls depend on the length of answers too.
var compared = []struct {
	kind  int
	least time.Duration
	code  say.Code
}{
	{firstToken, 10 * time.Millisecond, "slow.first"},
	{perToken, time.Millisecond, "slow.token"},
	{duration, 10 * time.Millisecond, "slow.call"},
}

// slowness is how much slower than a peer an instance is.
type slowness struct {
	since     time.Time
	code      say.Code
	own, peer time.Duration // medians
	calls     int64
	peerID    string
	// ownSums and peerSums are the counts of the same span, ownPace and peerPace the times per token,
	// 0 where they are not known.
	ownSums, peerSums metrics.Totals
	ownPace, peerPace time.Duration
}

// Slow is an instance that is far slower than its peers for the same model.
type Slow struct {
	Service    schema.ServiceType `json:"service"`
	Model      string             `json:"model"`
	InstanceID string             `json:"instanceId"`
	Host       string             `json:"host"`
	Since      time.Time          `json:"since"`
	Text       string             `json:"text" doc:"How much slower than which peer, and what is known of why."`
	Said       []say.Sentence     `json:"said,omitzero" doc:"The text as codes and values."`
}

// Slow returns the instances that are far slower than the median of their peers, by service type
// and name.
func (s *Sampler) Slow(now time.Time) []Slow {
	s.mu.RLock()
	defer s.mu.RUnlock()
	found := []Slow{}
	for _, pool := range s.current.Load().Pools() {
		for _, i := range pool.Instances {
			one := s.slow[InstanceKey{i.Service, i.ID}]
			if one == nil {
				continue
			}
			at := slices.IndexFunc(pool.Instances, func(other *backend.Instance) bool { return other.ID == one.peerID })
			if at < 0 {
				continue // it was removed a moment ago
			}
			said := one.said(i, pool.Instances[at], now)
			found = append(found, Slow{i.Service, pool.Model, i.ID, calls.HostOf(i.ID), one.since.UTC(), said.String(),
				say.All(said)})
		}
	}
	return found
}

// findSlow compares the instances of each model. The lock is held.
func (s *Sampler) findSlow(now time.Time) {
	found := map[InstanceKey]*slowness{}
	for _, pool := range s.current.Load().Pools() {
		if len(pool.Instances) < 2 {
			continue
		}
		for i, one := range s.compare(pool.Instances) {
			key := InstanceKey{pool.Instances[i].Service, pool.Instances[i].ID}
			if one.since = now; s.slow[key] != nil {
				one.since = s.slow[key].since
			}
			found[key] = one
		}
	}
	s.slow = found
}

// observed is the calls of an instance in a span.
type observed struct {
	place   int // among the instances
	times   times
	medians [timeCount]time.Duration
	sums    metrics.Totals
}

// compare returns the slow ones of the instances of a model, by their places.
func (s *Sampler) compare(instances []*backend.Instance) map[int]*slowness {
	found := map[int]*slowness{}
	decided := map[[2]int]bool{} // by instance and kind
	for _, span := range slowWindows {
		all := make([]*observed, 0, len(instances))
		for place, i := range instances {
			own := s.instances[InstanceKey{i.Service, i.ID}]
			if own == nil || own.track == nil || own.track.last <= s.second-span {
				continue
			}
			one := &observed{place: place, sums: own.track.sum(FiveMinutes, s.second-span+1, s.second)}
			own.track.times(FiveMinutes, s.second-span+1, s.second, &one.times)
			for kind := range one.times {
				one.medians[kind] = one.times[kind].Quantile(0.5)
			}
			all = append(all, one)
		}
		for _, by := range compared {
			for _, own := range all {
				peer := peerOf(own, all, by.kind)
				if peer == nil || decided[[2]int{own.place, by.kind}] || found[own.place] != nil {
					continue
				}
				decided[[2]int{own.place, by.kind}] = true
				// Where both parts of a stream are known, its length is that of its answer.
				if by.kind == duration && decided[[2]int{own.place, firstToken}] &&
					decided[[2]int{own.place, perToken}] {
					continue
				}
				_, was := s.slow[InstanceKey{instances[own.place].Service, instances[own.place].ID}]
				if !isFarSlower(own, peer, by.kind, by.least, was) {
					continue
				}
				found[own.place] = &slowness{
					code: by.code, own: own.medians[by.kind], peer: peer.medians[by.kind],
					calls: own.times[by.kind].Count(), peerID: instances[peer.place].ID, ownSums: own.sums,
					peerSums: peer.sums, ownPace: own.medians[perToken], peerPace: peer.medians[perToken],
				}
			}
		}
	}
	return found
}

// peerOf returns the peer with the median of the medians, the faster of two; nil where no peer, or
// not the instance itself, has calls enough.
func peerOf(own *observed, all []*observed, kind int) *observed {
	if own.times[kind].Count() < fewest {
		return nil
	}
	var peers []*observed
	for _, other := range all {
		if other != own && other.times[kind].Count() >= fewest {
			peers = append(peers, other)
		}
	}
	if len(peers) == 0 {
		return nil
	}
	slices.SortStableFunc(peers, func(a, b *observed) int { return cmp.Compare(a.medians[kind], b.medians[kind]) })
	return peers[(len(peers)-1)/2]
}

// isFarSlower reports whether calls of an instance take far longer than those of a peer, and not
// by chance. One that was slow stays so until it is nearly as fast.
func isFarSlower(own, peer *observed, kind int, least time.Duration, was bool) bool {
	o, p := &own.times[kind], &peer.times[kind]
	ratio := float64(own.medians[kind]) / float64(peer.medians[kind])
	if kind == duration {
		// Answers that are longer take longer.
		ratio /= max(1, perCall(own.sums.TokensOut, &own.sums)/max(1, perCall(peer.sums.TokensOut, &peer.sums)))
	}
	if own.medians[kind]-peer.medians[kind] < least || ratio < stillSlower {
		return false
	}
	if was {
		return true
	}
	if o.Count() < enough || p.Count() < enough {
		return ratio >= farSlower && o.Quantile(0) > p.Quantile(1)
	}
	return ratio >= farSlower && o.Quantile(0.25) > p.Quantile(0.75)
}

// perCall divides something by the number of answered calls.
func perCall(n int64, s *metrics.Totals) float64 {
	return float64(n) / float64(max(s.Outcomes.Answered, 1))
}

// said says how slow the instance is, and why as far as that is known.
func (o *slowness) said(own, peer *backend.Instance, now time.Time) say.Sentence {
	reasons := append(o.reasonsNow(own, peer, now), o.reasons()...)
	why := say.New("slow.unknown")
	for n, reason := range reasons[:min(len(reasons), 3)] {
		if n == 0 {
			why = reason
			continue
		}
		why = say.New("slow.and", "first", why, "next", reason)
	}
	return say.New(o.code, "model", own.Settings.Name, "host", calls.HostOf(own.ID), "peer", calls.HostOf(peer.ID),
		"times", rounded(float64(o.own)/float64(o.peer)), "own", o.own, "theirs", o.peer,
		"calls", o.calls, "why", why)
}

// reasonsNow returns why the instance is slow by its state now: its queue, and whether the model
// is in memory.
func (o *slowness) reasonsNow(own, peer *backend.Instance, now time.Time) []say.Sentence {
	var why []say.Sentence
	mine, theirs := own.Engine(), peer.Engine()
	if mine == nil || theirs == nil {
		if own.InFlight() >= 4 && float64(own.InFlight()) >= marked*float64(peer.InFlight()) {
			why = append(why, say.New("slow.busy", "own", own.InFlight(), "theirs", peer.InFlight()))
		}
		return why
	}
	a, b := mine.Picture(now), theirs.Picture(now)
	switch a.State {
	case "loading", "sleeping", "absent":
		why = append(why, say.New("slow.memory", "state", a.State))
	}
	if a.Queue >= 0.1 && a.Queue >= marked*b.Queue {
		why = append(why, say.New("slow.queue", "own", inSeconds(a.Queue), "theirs", inSeconds(b.Queue)))
	}
	if a.PerToken >= marked*b.PerToken {
		why = append(why, say.New("slow.prefill", "own", rounded(1/a.PerToken), "theirs", rounded(1/b.PerToken)))
	}
	return why
}

// reasons returns why the instance is slow by its calls.
func (o *slowness) reasons() []say.Sentence {
	var why []say.Sentence
	if o.ownSums.Held > 0 {
		why = append(why, say.New("slow.loading", "time", o.ownSums.Held))
	}
	mine, theirs := perCall(o.ownSums.TokensIn, &o.ownSums), perCall(o.peerSums.TokensIn, &o.peerSums)
	if theirs > 0 && mine >= marked*theirs {
		why = append(why, say.New("slow.prompts", "own", math.Round(mine), "theirs", math.Round(theirs)))
	}
	if o.ownSums.TokensIn > 0 && o.peerSums.TokensIn > 0 {
		cached := float64(o.ownSums.TokensCached) / float64(o.ownSums.TokensIn)
		other := float64(o.peerSums.TokensCached) / float64(o.peerSums.TokensIn)
		if other-cached >= lessCached {
			why = append(why, say.New("slow.cached", "own", math.Round(100*cached), "theirs", math.Round(100*other)))
		}
	}
	if o.peerPace > 0 && float64(o.ownPace) >= marked*float64(o.peerPace) && o.code != "slow.token" {
		why = append(why, say.New("slow.decode", "own", o.ownPace, "theirs", o.peerPace))
	}
	return why
}

func inSeconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

// rounded returns a number with two digits, or all before the point.
func rounded(x float64) float64 {
	if x >= 10 {
		return math.Round(x)
	}
	return math.Round(10*x) / 10
}
