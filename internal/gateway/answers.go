package gateway

import (
	"log/slog"
	"sync/atomic"

	"github.com/patchbay-ai/patchbay/internal/answercache"
	"github.com/patchbay-ai/patchbay/internal/answercache/cachestep"
	"github.com/patchbay-ai/patchbay/internal/answers"
	"github.com/patchbay-ai/patchbay/internal/answers/redisanswers"
	"github.com/patchbay-ai/patchbay/internal/config"
)

// answerStore is where the responses of the Responses API are kept, with the settings
// that can change while it is used.
type answerStore struct {
	answers.Store
	settings atomic.Pointer[answers.Settings]
	close    func()
}

// newAnswerStore returns the store that the configuration describes.
func newAnswerStore(doc *config.Document) *answerStore {
	s := &answerStore{close: func() {}}
	settings := doc.Responses
	s.settings.Store(&settings)
	if settings.Shared {
		shared := redisanswers.New(doc.Redis.URL, func() answers.Settings { return *s.settings.Load() })
		s.Store, s.close = shared, shared.Close
	} else {
		s.Store = answers.NewMemory(settings)
	}
	return s
}

// set changes for how long responses are kept, and how many.
func (s *answerStore) set(settings answers.Settings) {
	s.settings.Store(&settings)
	if memory, ok := s.Store.(*answers.Memory); ok {
		memory.Set(settings)
	}
}

// newAnswerCache returns the cache of answers that the configuration describes.
func newAnswerCache(doc *config.Document, _ *slog.Logger) *cachestep.Cache {
	settings := doc.AnswerCache
	return cachestep.New(answercache.NewMemory(settings), settings, nil)
}
