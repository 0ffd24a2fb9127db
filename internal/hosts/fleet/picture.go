package fleet

import (
	"cmp"
	"slices"
	"time"
)

// Picture describes an instance for people who watch it.
type Picture struct {
	Host, Model string
	// Queue is how many seconds of prefill a new request would find there.
	Queue float64
	// Waiting and Decoding are own calls before and after their first token, Others the
	// calls of other gateways before it.
	Waiting, Decoding, Others int
	// Cached is how many bytes of prompts it is believed to have cached, of at most
	// Capacity.
	Cached, Capacity int64
	// PerToken and PerOutput are the seconds for a token of a prompt and of an answer.
	PerToken, PerOutput float64
	// State says whether the model is in memory: unknown, loaded, sleeping, loading, absent.
	State string
	// Told is the latest report of the engine, if IsTold, and Trust how far engines are
	// believed, from 0 to 1.
	Told   Told
	IsTold bool
	Trust  float64
}

// Pictures returns the picture of each instance, by host and model.
func (f *Fleet) Pictures(now time.Time) []Picture {
	f.mu.Lock()
	defer f.mu.Unlock()
	at := f.clock(now)
	var all []Picture
	for _, h := range f.hosts {
		for _, i := range h.instances {
			all = append(all, i.picture(at))
		}
	}
	slices.SortFunc(all, func(a, b Picture) int {
		return cmp.Or(cmp.Compare(a.Host, b.Host), cmp.Compare(a.Model, b.Model))
	})
	return all
}

// Picture returns the picture of the instance.
func (i *Instance) Picture(now time.Time) Picture {
	i.host.fleet.mu.Lock()
	defer i.host.fleet.mu.Unlock()
	return i.picture(i.host.fleet.clock(now))
}

// IsIdle reports whether a new call would find no work on other prompts in front of it at the
// host: work of this gateway, of others, or work that the host has reported.
func (i *Instance) IsIdle(now time.Time) bool {
	f, at := i.lock(now)
	defer f.mu.Unlock()
	return i.host.wait(at)-lateness*i.host.settled < tie
}

func (i *Instance) picture(now float64) Picture {
	return Picture{
		Host: i.host.name, Model: i.model.name, Queue: i.host.wait(now),
		Waiting: int(i.waiting), Decoding: int(i.decoding), Others: int(i.theirs),
		Cached: i.cache.bytes, Capacity: int64(i.cache.capacity),
		PerToken: i.perToken, PerOutput: i.speed.decode.value(),
		State: i.state.String(), Told: i.host.told.Told, IsTold: i.host.told.at > 0,
		Trust: i.host.fleet.trust / mostTrust,
	}
}
