package monitor

import (
	"math"
	"time"

	"github.com/patchbay-ai/patchbay/internal/hosts/backend"
	"github.com/patchbay-ai/patchbay/internal/hosts/fleet"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
	"github.com/patchbay-ai/patchbay/internal/route/routing"
	"github.com/patchbay-ai/patchbay/internal/serve/web"
)

// fleetView says how well the instances are used that are balanced by least_time.
type fleetView struct {
	WindowSeconds int          `json:"windowSeconds" doc:"How far back the numbers about calls look."`
	Trust         *float64     `json:"trust" minimum:"0" maximum:"1"`
	Models        []fleetModel `json:"models"`
}

// Docs says more about some members than a tag has room for.
func (fleetView) Docs() map[string]string {
	return map[string]string{
		"trust": "How far the queues that engines tell are believed; null where no model is balanced by " +
			"least_time.",
	}
}

// fleetModel is a model that is balanced by least_time.
type fleetModel struct {
	Service   schema.ServiceType `json:"service"`
	Model     string             `json:"model"`
	Use       fleetUse           `json:"use"`
	Instances []fleetInstance    `json:"instances"`
}

// fleetInstance is the fleet's knowledge of an instance.
type fleetInstance struct {
	ID     string     `json:"id"`
	Handle string     `json:"handle" doc:"As in X-Router-Instance."`
	Engine engineView `json:"engine"`
	Use    fleetUse   `json:"use"`
}

// fleetUse sums up the latest calls.
type fleetUse struct {
	Calls               int      `json:"calls" doc:"Complete answers."`
	Streams             int      `json:"streams" doc:"Those of them whose first token was seen."`
	HitRate             *float64 `json:"hitRate" minimum:"0" maximum:"1"`
	IsHitRateTold       bool     `json:"isHitRateTold" doc:"Whether the engines told it; else the gateway believes it."`
	BlindHitRate        *float64 `json:"blindHitRate" minimum:"0" maximum:"1"`
	PrefillSavedShare   *float64 `json:"prefillSavedShare" minimum:"0" maximum:"1"`
	PrefillSavedSeconds float64  `json:"prefillSavedSeconds"`
	FirstTokenMs        *float64 `json:"firstTokenMs"`
	ExpectedMs          *float64 `json:"expectedMs" doc:"What was expected of these streams."`
	RoundRobinMs        *float64 `json:"roundRobinMs"`
	EstimateRatio       *float64 `json:"estimateRatio"`
}

// Docs says more about some members than a tag has room for.
func (fleetUse) Docs() map[string]string {
	return map[string]string{
		"hitRate":           "The share of the tokens of prompts that came from a cache; null without calls.",
		"blindHitRate":      "What a choice that does not look would have found in caches: an estimate.",
		"prefillSavedShare": "The share of the work on prompts that caches saved: an estimate.",
		"firstTokenMs": "The mean time to the first token of streams, from the pick of the instance on; null " +
			"without streams.",
		"roundRobinMs": "What these streams would have come to where instances take turns: a low estimate, " +
			"because caches and queues are as least_time left them.",
		"estimateRatio": "The median of the true time to the first token by the expected one: 1 is right, 2 " +
			"means that first tokens come twice as late as expected.",
	}
}

// engineView is the gateway's knowledge of the engine behind an instance.
type engineView struct {
	QueueSeconds          float64     `json:"queueSeconds" doc:"Seconds of work on prompts before a new request."`
	Waiting               int         `json:"waiting" doc:"Own calls of this instance before their first token."`
	Decoding              int         `json:"decoding" doc:"Own calls after it."`
	Others                int         `json:"others" doc:"Calls of other gateways before their first token."`
	State                 engineState `json:"state" doc:"Whether the model is in memory."`
	CachedBytes           int64       `json:"cachedBytes" doc:"Text of prompts that it is believed to have cached."`
	CapacityBytes         int64       `json:"capacityBytes" doc:"How much of it is believed to fit."`
	PromptTokensPerSecond float64     `json:"promptTokensPerSecond" doc:"As learned; the gateway guesses tokens."`
	OutputTokensPerSecond float64     `json:"outputTokensPerSecond"`
	SecondsPerPromptToken float64     `json:"secondsPerPromptToken" doc:"For a token that it has not cached."`
	SecondsPerOutputToken float64     `json:"secondsPerOutputToken"`
	HitRate               *float64    `json:"hitRate" minimum:"0" maximum:"1"`
	Told                  *engineTold `json:"told,omitzero" doc:"What the engine says about itself, if anything."`
}

// Docs says more about some members than a tag has room for.
func (engineView) Docs() map[string]string {
	return map[string]string{
		"hitRate": "The share of the tokens of prompts that came from its cache in the last minutes; null " +
			"without calls.",
	}
}

// engineTold holds the figures that an engine reports. It leaves out figures that the
// engine does not report.
type engineTold struct {
	Waiting        *float64 `json:"waiting,omitzero" doc:"Requests that wait for their prefill, of whomever."`
	Running        *float64 `json:"running,omitzero"`
	CacheUsed      *float64 `json:"cacheUsed,omitzero" minimum:"0" maximum:"1"`
	CapacityTokens *float64 `json:"capacityTokens,omitzero" doc:"How many tokens its cache holds."`
}

// engineState says whether a model is in memory.
type engineState string

// Names returns every state.
func (engineState) Names() []string { return fleet.States() }

// fleet answers GET /api/monitoring/fleet.
func (a *API) fleet(*web.Call) (fleetView, error) {
	now := time.Now()
	view := fleetView{WindowSeconds: int(fleet.UseTime.Seconds()), Models: []fleetModel{}}
	for _, pool := range a.Current.Load().Pools() {
		if model := fleetModelOf(pool, now, &view); len(model.Instances) > 0 {
			view.Models = append(view.Models, model)
		}
	}
	return view, nil
}

// fleetModelOf returns the fleet's knowledge of the instances of a pool. It leaves the
// instances out where the strategy needs no knowledge of them.
func fleetModelOf(pool *routing.Pool, now time.Time, view *fleetView) fleetModel {
	model := fleetModel{Service: pool.Service.Type, Model: pool.Model, Instances: []fleetInstance{}}
	var all []*fleet.Uses
	var of *fleet.Fleet
	for _, i := range pool.Instances {
		engine := i.Engine()
		if engine == nil {
			continue
		}
		of = engine.Fleet()
		all = append(all, i.Uses())
		picture, use := engine.Picture(now), of.Use([]*fleet.Uses{i.Uses()}, now)
		view.Trust = new(rounded(picture.Trust))
		model.Instances = append(model.Instances,
			fleetInstance{ID: i.ID, Handle: i.Handle, Engine: viewOfEngine(&picture, use), Use: viewOfUse(use)})
	}
	if of != nil {
		model.Use = viewOfUse(of.Use(all, now))
	}
	return model
}

// engineOf returns the gateway's knowledge of the engine of an instance, nil where the
// strategy needs none.
func engineOf(i *backend.Instance, now time.Time) *engineView {
	engine := i.Engine()
	if engine == nil {
		return nil
	}
	picture := engine.Picture(now)
	return new(viewOfEngine(&picture, engine.Fleet().Use([]*fleet.Uses{i.Uses()}, now)))
}

func viewOfEngine(p *fleet.Picture, use fleet.Use) engineView {
	view := engineView{
		QueueSeconds: rounded(p.Queue), Waiting: use.Waiting, Decoding: use.Decoding, Others: p.Others,
		State:       engineState(p.State),
		CachedBytes: p.Cached, CapacityBytes: p.Capacity, HitRate: viewOfUse(use).HitRate,
		PromptTokensPerSecond: rounded(1 / p.PerToken), OutputTokensPerSecond: rounded(1 / p.PerOutput),
		SecondsPerPromptToken: p.PerToken, SecondsPerOutputToken: p.PerOutput,
	}
	if p.IsTold {
		view.Told = &engineTold{told(p.Told.Waiting), told(p.Told.Running), told(p.Told.Used), told(p.Told.Capacity)}
	}
	return view
}

func viewOfUse(u fleet.Use) fleetUse {
	view := fleetUse{Calls: u.Calls, Streams: u.Streams, IsHitRateTold: u.IsTold, PrefillSavedSeconds: rounded(u.Saved)}
	if u.Calls > 0 {
		view.HitRate, view.BlindHitRate = new(rounded(u.HitRate)), new(rounded(u.BlindHitRate))
	}
	if u.Prefill > 0 {
		view.PrefillSavedShare = new(rounded(u.SavedShare()))
	}
	if u.Streams > 0 {
		view.FirstTokenMs, view.ExpectedMs = new(rounded(1000*u.FirstToken)), new(rounded(1000*u.Expected))
		view.RoundRobinMs, view.EstimateRatio = new(rounded(1000*u.Blind)), new(rounded(u.Ratio))
	}
	return view
}

// told returns a number, nil where it was not told.
func told(number float64) *float64 {
	if number < 0 {
		return nil
	}
	return &number
}

// rounded returns a number with three decimals.
func rounded(x float64) float64 { return math.Round(x*1000) / 1000 }
