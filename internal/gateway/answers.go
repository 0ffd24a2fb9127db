package gateway

import (
	"sync/atomic"
	"time"

	"github.com/patchbay-ai/patchbay/internal/store/seal"
	"github.com/patchbay-ai/patchbay/internal/wings/answercache"
	"github.com/patchbay-ai/patchbay/internal/wings/answercache/cachestep"
	"github.com/patchbay-ai/patchbay/internal/wings/answercache/rediscache"
)

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
