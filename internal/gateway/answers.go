package gateway

import (
	"sync/atomic"
	"time"

	"github.com/patchbay-ai/patchbay/internal/store/seal"
	"github.com/patchbay-ai/patchbay/internal/wings/answercache"
	"github.com/patchbay-ai/patchbay/internal/wings/answercache/cachestep"
	"github.com/patchbay-ai/patchbay/internal/wings/answercache/rediscache"
	"github.com/patchbay-ai/patchbay/internal/wings/answers"
	"github.com/patchbay-ai/patchbay/internal/wings/answers/redisanswers"
)

// answerStore is where the responses of the Responses API are kept, with the settings
// that can change while it is used.
type answerStore struct {
	answers.Store
	settings atomic.Pointer[answers.Settings]
	close    func()
}

// openAnswers opens the store of responses that the configuration describes.
func (g *Gateway) openAnswers() error {
	doc := g.Document
	s := &answerStore{close: func() {}}
	g.answers = s
	settings := doc.Responses
	s.settings.Store(&settings)
	if !settings.Shared {
		s.Store = answers.NewMemory(settings)
		return nil
	}
	keys, err := seal.New(doc.Security.MasterKey, doc.Security.PreviousMasterKey)
	if err != nil {
		return err
	}
	shared := redisanswers.New(redisanswers.Options{
		Address: doc.Redis.URL, Keys: keys, Takeovers: g.takeovers, WritesBefore: doc.Security.AcceptUnsigned,
		Settings: func() answers.Settings { return *s.settings.Load() }, Log: g.log,
	})
	s.Store, s.close = shared, shared.Close
	return nil
}

// set changes for how long responses are kept, and how many.
func (s *answerStore) set(settings answers.Settings) {
	s.settings.Store(&settings)
	if memory, ok := s.Store.(*answers.Memory); ok {
		memory.Set(settings)
	}
}

// openAnswerCache opens the cache of answers that the configuration describes.
func (g *Gateway) openAnswerCache() error {
	doc := g.Document
	g.closeCache = func() {}
	if !doc.AnswerCache.Shared {
		g.cache = cachestep.New(answercache.NewMemory(doc.AnswerCache), doc.AnswerCache, nil)
		return nil
	}
	keys, err := seal.New(doc.Security.MasterKey, doc.Security.PreviousMasterKey)
	if err != nil {
		return err
	}
	store := rediscache.New(doc.Redis.URL, doc.Redis.KeyPrefix, keys, func() answercache.Settings { return g.cache.Settings() }, g.log)
	var warned atomic.Int64
	g.cache = cachestep.New(store, doc.AnswerCache, func(err error) {
		const every = 10 // seconds
		now := time.Now().Unix()
		if last := warned.Load(); now-last >= every && warned.CompareAndSwap(last, now) {
			g.log.Warn("the cache of answers does not work: requests go to the backends", "error", err)
		}
	})
	g.closeCache = store.Close
	return nil
}
