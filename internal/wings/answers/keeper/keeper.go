// Package keeper is the wing of kept responses: it opens the store of the configuration and
// gives it to the unified API, which continues, shows and deletes the responses in it.
package keeper

import (
	"sync/atomic"

	"github.com/patchbay-ai/patchbay/internal/config"
	"github.com/patchbay-ai/patchbay/internal/serve/web"
	v1 "github.com/patchbay-ai/patchbay/internal/serve/web/v1"
	"github.com/patchbay-ai/patchbay/internal/serve/wing"
	"github.com/patchbay-ai/patchbay/internal/wings/answers"
	"github.com/patchbay-ai/patchbay/internal/wings/answers/redisanswers"
)

// keeper is the store with the settings that can change while it is used.
type keeper struct {
	core     *wing.Core
	settings atomic.Pointer[answers.Settings]
	memory   *answers.Memory     // nil where responses are shared
	shared   *redisanswers.Store // nil where they are not
}

// New returns the wing of kept responses.
func New(core *wing.Core) *wing.Wing {
	k := &keeper{core: core}
	return &wing.Wing{
		Kept:   redisanswers.Kept(),
		Routes: func() []web.Route { return v1.KeptRoutes(core.Unified) },
		Open:   k.open, Set: k.set, Close: k.close,
	}
}

func (k *keeper) open() error {
	doc := k.core.Document
	k.settings.Store(&doc.Responses)
	if !doc.Responses.Shared {
		k.memory = answers.NewMemory(doc.Responses)
		k.core.Unified.KeepAnswers(k.memory)
		return nil
	}
	keys, err := doc.Security.MasterKeys()
	if err != nil {
		return err
	}
	k.shared = redisanswers.New(redisanswers.Options{
		Address: doc.Redis.URL, Keys: keys,
		Settings: func() answers.Settings { return *k.settings.Load() }, Log: k.core.Log,
	})
	k.core.Unified.KeepAnswers(k.shared)
	return nil
}

// set changes for how long responses are kept, and how many.
func (k *keeper) set(doc *config.Document) {
	k.settings.Store(&doc.Responses)
	if k.memory != nil {
		k.memory.Set(doc.Responses)
	}
}

func (k *keeper) close() {
	if k.shared != nil {
		k.shared.Close()
	}
}
