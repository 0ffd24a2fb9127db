package live

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/patchbay-ai/patchbay/internal/hosts/backend"
	"github.com/patchbay-ai/patchbay/internal/hosts/fleet"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
	"github.com/patchbay-ai/patchbay/internal/see/calls"
)

// FigureList says how fast services, models, instances or hosts are.
type FigureList struct {
	Range   Range    `json:"range"`
	Figures []Figure `json:"figures" doc:"By service type, those with the longest p95 first."`
	Slow    []Slow   `json:"slow" doc:"The instances that are far slower than a peer for the same model, now."`
	Omitted int      `json:"omitted" doc:"Those with requests for whose history there was no room."`
}

// Figure is how fast one thing is. It has one service type.
type Figure struct {
	Service    schema.ServiceType `json:"service"`
	Model      string             `json:"model,omitzero"`
	InstanceID string             `json:"instanceId,omitzero"`
	Host       string             `json:"host,omitzero" doc:"Of an instance too."`
	Window
	PromptTokens *float64    `json:"promptTokens" doc:"The mean tokens of a prompt; null without answers."`
	CachedShare  *float64    `json:"cachedShare" minimum:"0" maximum:"1" doc:"Of the tokens of prompts."`
	InFlight     *int64      `json:"inFlight,omitzero" doc:"Calls of an instance now."`
	Engine       *EngineRate `json:"engine,omitzero" doc:"Of an instance that is balanced by least_time."`
}

// EngineRate is how fast the engine of an instance is, as the fleet has learned it.
type EngineRate struct {
	QueueSeconds          float64  `json:"queueSeconds" doc:"Seconds of work on prompts before a new request."`
	SecondsPerPromptToken float64  `json:"secondsPerPromptToken" doc:"As learned; the gateway guesses tokens."`
	SecondsPerOutputToken float64  `json:"secondsPerOutputToken"`
	PrefillSavedShare     *float64 `json:"prefillSavedShare" minimum:"0" maximum:"1"`
	State                 string   `json:"state" enum:"unknown,loaded,sleeping,loading,absent"`
}

// Docs says more about some members than a tag has room for.
func (EngineRate) Docs() map[string]string {
	return map[string]string{
		"prefillSavedShare": "The share of the work on prompts that its cache saved in the last 5 minutes: an " +
			"estimate.",
		"state": "Whether the model is in memory.",
	}
}

// Figures returns how fast those things are that a query chooses.
func (s *Sampler) Figures(q Query, now time.Time) FigureList {
	history := s.History(q)
	list := FigureList{Range: history.Range, Figures: []Figure{}, Slow: s.Slow(now), Omitted: history.Omitted}
	instances := map[InstanceKey]*backend.Instance{}
	for _, pool := range s.current.Load().Pools() {
		for _, i := range pool.Instances {
			instances[InstanceKey{i.Service, i.ID}] = i
		}
	}
	for _, one := range history.Series {
		figure := Figure{Service: one.service(), Model: one.Model, InstanceID: one.InstanceID, Host: one.Host,
			Window: *one.Whole}
		if figure.Answered > 0 {
			figure.PromptTokens = new(thousandths(float64(figure.TokensIn) / float64(figure.Answered)))
		}
		if figure.TokensIn > 0 {
			figure.CachedShare = new(thousandths(min(float64(figure.TokensCached)/float64(figure.TokensIn), 1)))
		}
		if i := instances[InstanceKey{figure.Service, figure.InstanceID}]; i != nil {
			figure.Host, figure.InFlight, figure.Engine = calls.HostOf(i.ID), new(i.InFlight()), rateOf(i, now)
		}
		list.Figures = append(list.Figures, figure)
	}
	slices.SortStableFunc(list.Figures, func(a, b Figure) int {
		return cmp.Or(cmp.Compare(a.Service, b.Service), cmp.Compare(b.slowest(), a.slowest()))
	})
	return list
}

// slowest returns the p95 of requests, 0 where there is none.
func (f *Figure) slowest() float64 {
	if f.Latency == nil {
		return 0
	}
	return f.Latency.P95
}

// rateOf returns how fast the engine of an instance is, nil where the strategy does not learn it.
func rateOf(i *backend.Instance, now time.Time) *EngineRate {
	engine := i.Engine()
	if engine == nil {
		return nil
	}
	picture, use := engine.Picture(now), engine.Fleet().Use([]*fleet.Uses{i.Uses()}, now)
	rate := &EngineRate{QueueSeconds: thousandths(picture.Queue), State: picture.State,
		SecondsPerPromptToken: math.Round(picture.PerToken*1e9) / 1e9,
		SecondsPerOutputToken: math.Round(picture.PerOutput*1e9) / 1e9}
	if use.Prefill > 0 {
		rate.PrefillSavedShare = new(thousandths(min(use.Saved/use.Prefill, 1)))
	}
	return rate
}

// thousandths returns a number with three decimals.
func thousandths(x float64) float64 { return math.Round(x*1000) / 1000 }
