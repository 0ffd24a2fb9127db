package governor

import (
	"context"
	"crypto/rand"
	"path/filepath"
	"strings"
	"time"

	"github.com/patchbay-ai/patchbay/internal/count/budget"
	"github.com/patchbay-ai/patchbay/internal/count/quota"
	"github.com/patchbay-ai/patchbay/internal/count/quota/sqlstore"
	"github.com/patchbay-ai/patchbay/internal/see/metrics"
	"github.com/patchbay-ai/patchbay/internal/serve/web"
	"github.com/patchbay-ai/patchbay/internal/serve/web/actuator"
	"github.com/patchbay-ai/patchbay/internal/serve/wing"
	"github.com/patchbay-ai/patchbay/internal/store/condition"
	"github.com/patchbay-ai/patchbay/internal/store/documents"
	"github.com/patchbay-ai/patchbay/internal/store/documents/pgdocuments"
	"github.com/patchbay-ai/patchbay/internal/wings/runs/loops"
	"github.com/patchbay-ai/patchbay/internal/wings/runs/registry"
)

// NewWing returns the wing that governs runs.
func NewWing(core *wing.Core) *wing.Wing {
	h := &handler{core: core}
	w := &wing.Wing{Kept: stored(), Routes: h.routes, Explain: h.explain, Families: families[:]}
	w.Open = func() error {
		if !core.Document.AgentRuns.Enabled {
			return nil
		}
		options, closeRegistry, err := optionsOf(core)
		if err != nil {
			return err
		}
		g := New(options)
		h.governor = g
		core.Requests.SetGovernor(g)
		core.Runs = g.visit
		w.Run, w.Doing, w.State, w.Health = g.Run, "keeping the runs of agents", g.state, g.health
		w.Close = func() {
			ctx, cancel := context.WithTimeout(context.Background(), closeTime)
			defer cancel()
			defer closeRegistry()
			if err := g.Close(ctx); err != nil {
				core.Log.Warn("the runs of agents were not written whole; the next start does it", "error", err)
			}
		}
		return nil
	}
	return w
}

// closeTime bounds the last writes.
const closeTime = 10 * time.Second

func optionsOf(core *wing.Core) (_ Options, closeRegistry func(), err error) {
	doc := core.Document
	options := Options{
		Settings: doc.AgentRuns, Data: core.Store.Data(), Log: core.Log,
		Currency:  func() string { return core.Current.Load().Currency },
		PublicURL: strings.TrimSuffix(doc.Server.PublicURL, "/"),
		Book: func(r *budget.Runs) *budget.Book {
			if _, isFile := sqlstore.File(doc.Store.URL, doc.Server.DataDir); isFile {
				r.Found = nil
			}
			r.Likely = doc.AgentRuns.Reserve == quota.Likely
			return core.NewBook(filepath.Join(doc.Server.DataDir, budget.RunsJournalDir), r)
		},
	}
	if keys := core.Credentials.MasterKeys(); keys != nil {
		keys.Derive("beginnings of runs", options.Secret[:])
	} else {
		_, _ = rand.Read(options.Secret[:]) // never fails
	}
	closeRegistry, err = options.openRegistry(core)
	return options, closeRegistry, err
}

// openRegistry opens the registry of runs in the database of the configuration or of the counts, if one of them
// is shared. With Redis, gateways learn of decisions by the totals there.
func (o *Options) openRegistry(core *wing.Core) (closeIt func(), err error) {
	doc := core.Document
	address := doc.Store.Config
	if address == "" {
		if _, isFile := sqlstore.File(doc.Store.URL, doc.Server.DataDir); isFile {
			return func() {}, nil
		}
		address = doc.Store.URL
	}
	database, err := pgdocuments.New(address)
	if err != nil {
		return nil, err
	}
	docs := documents.Store(database)
	if keys := core.Credentials.MasterKeys(); keys != nil {
		docs = documents.NewSigned(database, keys, core.Log)
	}
	o.Registry, o.IsPolled = registry.New(docs, doc.AgentRuns.Idle.Std()), !doc.Quota.Distributed.Enabled
	return database.Close, nil
}

// health adds the stores of runs.
func (g *Governor) health(to map[string]actuator.Component) {
	s := g.book.Stats()
	if !s.Enabled { // there was no run yet
		return
	}
	add := func(name string, failure *condition.Failure, failures int64) {
		details := actuator.Dependency{Failures: failures}
		if failure != nil {
			details.Since, details.Reason = web.Time(failure.Since), actuator.Shorten(failure.Reason)
		}
		to[name] = actuator.Component{IsDegraded: failure != nil, Details: details}
	}
	add("runsJournal", s.JournalFailure, s.JournalFailures)
	add("runsDatabase", s.StoreFailure, s.StoreFailures)
	if s.Distributed {
		add("sharedRuns", s.CounterFailure, s.CounterFailures)
	}
}

// state adds the runs to a scrape of the metrics.
func (g *Governor) state(to *metrics.State, _ time.Time) {
	counts := map[State]int64{Running: 0, Waiting: 0, Stopped: 0, Ended: 0}
	g.eachView(func(v *RunView, isOurs bool) {
		if isOurs { // others count the rest
			counts[v.State]++
		}
	})
	for state, n := range counts {
		to.Value("model_router_runs", float64(n), strings.ToLower(string(state)))
	}
	for i, code := range refusalCodes {
		to.Count("model_router_run_refusals_total", g.refused[i].Load(), code)
	}
	for rule := range g.looped {
		for action := range g.looped[rule] {
			to.Count("model_router_run_loops_total", g.looped[rule][action].Load(),
				loops.Rule(rule).String(), loops.Action(action).String())
		}
	}
}

// families are the metrics of runs.
var families = [...]metrics.Family{
	{
		Name: "model_router_runs", Dotted: "model.router.runs", Kind: metrics.KindGauge,
		Category: metrics.CategoryCustom, Unit: "runs", Labels: []string{"state"},
		Help: "Runs of agents that go on, by what they do: running, waiting, stopped or ended.",
	},
	{
		Name: "model_router_run_refusals_total", Dotted: "model.router.run.refusals.total", Kind: metrics.KindCounter,
		Category: metrics.CategoryCustom, Unit: "requests", Labels: []string{"code"},
		Help: "Requests refused because of their run, by the code of the error.",
	},
	{
		Name: "model_router_run_loops_total", Dotted: "model.router.run.loops.total", Kind: metrics.KindCounter,
		Category: metrics.CategoryCustom, Unit: "requests", Labels: []string{"rule", "action"},
		Help: "Requests of runs that go round in circles, by the broken rule and the action.",
	},
}
