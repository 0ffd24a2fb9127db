// Package managedcache is the wing of the cache of answers: it opens the store that the
// configuration describes, and lets operators see and empty it.
package managedcache

import (
	"net/http"
	"sync/atomic"
	"time"

	"github.com/patchbay-ai/patchbay/internal/access"
	"github.com/patchbay-ai/patchbay/internal/config"
	"github.com/patchbay-ai/patchbay/internal/plain/say"
	"github.com/patchbay-ai/patchbay/internal/route/account"
	"github.com/patchbay-ai/patchbay/internal/route/survey"
	"github.com/patchbay-ai/patchbay/internal/see/metrics"
	"github.com/patchbay-ai/patchbay/internal/serve/web"
	"github.com/patchbay-ai/patchbay/internal/serve/web/explain"
	"github.com/patchbay-ai/patchbay/internal/serve/wing"
	"github.com/patchbay-ai/patchbay/internal/wings/answercache"
	"github.com/patchbay-ai/patchbay/internal/wings/answercache/cachestep"
	"github.com/patchbay-ai/patchbay/internal/wings/answercache/rediscache"
)

// entry is the cache as the gateway uses it.
type entry struct {
	core  *wing.Core
	cache *cachestep.Cache // nil before it is opened
	close func()
}

// New returns the wing of the cache of answers.
func New(core *wing.Core) *wing.Wing {
	e := &entry{core: core, close: func() {}}
	return &wing.Wing{
		Kept: rediscache.Kept(), Routes: e.routes, Open: e.open,
		Step: func(doc *config.Document) account.Step {
			if !doc.AnswerCache.On() {
				return nil
			}
			return e.cache.Step
		},
		Explain: func(view *explain.Explanation, asked survey.Subject) {
			service := asked.Door.Service()
			view.AnswerCache, view.SingleFlight = e.cache.IsOn(service), e.cache.IsSingleFlight(service)
		},
		Set:   func(doc *config.Document) { e.cache.Set(doc.AnswerCache) },
		Close: func() { e.close() },
		State: func(to *metrics.State, _ time.Time) { e.cache.State(to) }, Families: families[:],
	}
}

// open opens the cache that the configuration describes.
func (e *entry) open() error {
	doc := e.core.Document
	if !doc.AnswerCache.Shared {
		e.cache = cachestep.New(answercache.NewMemory(doc.AnswerCache), doc.AnswerCache, nil)
	} else {
		keys, err := doc.Security.MasterKeys()
		if err != nil {
			return err
		}
		settings := func() answercache.Settings { return e.cache.Settings() }
		store := rediscache.New(doc.Redis.URL, doc.Redis.KeyPrefix, keys, settings, e.core.Log)
		e.cache, e.close = cachestep.New(store, doc.AnswerCache, e.warn()), store.Close
	}
	e.core.Current.Observe(e.cache.Keep)
	return nil
}

// warn returns a function that logs failures of the store, now and then.
func (e *entry) warn() func(error) {
	const every = 10 // seconds
	var warned atomic.Int64
	return func(err error) {
		now := time.Now().Unix()
		if last := warned.Load(); now-last >= every && warned.CompareAndSwap(last, now) {
			e.core.Log.Warn("the cache of answers does not work: requests go to the backends", "error", err)
		}
	}
}

// routes returns the operations for people who run the gateway.
func (e *entry) routes() []web.Route {
	return []web.Route{
		{
			Pattern: "GET /api/answer-cache", Tag: "Service types", Permission: access.ReadRoutes, Does: web.Do(e.show),
			Summary: "What the cache of answers keeps", Says: "The cache of answers.",
		},
		{
			Pattern: "DELETE /api/answer-cache", Tag: "Service types", Permission: access.WriteTypes,
			Does: web.Do(e.clear), Concerns: web.OfGateway,
			Summary: "Remove all answers from the cache, in all gateways that share it",
			Says:    "The cache of answers is empty.", Errors: []int{http.StatusServiceUnavailable},
		},
	}
}

// answerCacheView is the cache in the document of the API.
type answerCacheView cachestep.Status

func (e *entry) show(*web.Call) (answerCacheView, error) {
	return answerCacheView(e.cache.Status()), nil
}

func (e *entry) clear(c *web.Call) (answerCacheView, error) {
	if err := e.cache.Clear(c.Context()); err != nil {
		return answerCacheView{}, web.Away(say.New("manage.cache_away", "why", err.Error()))
	}
	return e.show(c)
}

// families are the metrics of this wing.
var families = [...]metrics.Family{
	{
		Name:   "model_router_answer_cache_requests_total",
		Dotted: "model.router.answer.cache.requests.total", Kind: metrics.KindCounter,
		Category: metrics.CategoryRequest, Unit: "requests", Labels: []string{"service", "result"},
		Help: "Requests for which the cache of answers is on, by what it did: hit, miss, bypass or shared.",
	},
}
