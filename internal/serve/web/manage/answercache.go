package manage

import (
	"errors"
	"fmt"
)

// errCacheAway means that the answers are in a store that does not answer.
var errCacheAway = errors.New("the store of the cache of answers cannot be reached; some answers may be left")

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

func (a *API) viewAnswerCache() answerCacheView {
	status := a.options.Cache.Status()
	return answerCacheView(status)
}

// AnswerCache answers GET /api/answer-cache.
func (a *API) AnswerCache(*Request) (Reply, error) {
	return Reply{message: "The cache of answers.", data: a.viewAnswerCache()}, nil
}

// ClearAnswerCache answers DELETE /api/answer-cache.
func (a *API) ClearAnswerCache(q *Request) (Reply, error) {
	if err := a.options.Cache.Clear(q.Context()); err != nil {
		return Reply{}, fmt.Errorf("%w: %w", errCacheAway, err)
	}
	return Reply{message: "The cache of answers is empty.", data: a.viewAnswerCache()}, nil
}
