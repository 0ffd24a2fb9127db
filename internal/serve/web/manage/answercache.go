package manage

import (
	"net/http"

	"github.com/patchbay-ai/patchbay/internal/serve/web"
)

// answerCacheView is the cache of answers as JSON.
type answerCacheView struct {
	Enabled bool  `json:"enabled"`
	Shared  bool  `json:"shared" doc:"Whether the answers are in Redis; the numbers are 0 then."`
	Answers int   `json:"answers" doc:"How many are kept."`
	Bytes   int64 `json:"bytes"`
	Evicted int64 `json:"evicted" doc:"How many gave way to others since the start."`

	SingleFlight bool `json:"singleFlight" doc:"Whether equal requests that are in flight at the same time share one call."`
	Flights      int  `json:"flights" doc:"How many calls others may share now."`
	Followers    int  `json:"followers" doc:"How many requests share the call of another one now."`
}

func (a *API) answerCache(*web.Call) (answerCacheView, error) {
	return answerCacheView(a.options.Cache.Status()), nil
}

func (a *API) clearAnswerCache(c *web.Call) (answerCacheView, error) {
	if err := a.options.Cache.Clear(c.Context()); err != nil {
		return answerCacheView{}, away("the store of the cache of answers cannot be reached; some answers may be left: " + err.Error())
	}
	return a.answerCache(c)
}

// away returns an error about something that cannot be reached or changed now.
func away(text string) error {
	return &web.RequestError{Status: http.StatusServiceUnavailable, Text: text}
}
