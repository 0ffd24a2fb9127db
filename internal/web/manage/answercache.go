package manage

// answerCacheView is the cache of answers as JSON.
type answerCacheView struct {
	Enabled bool  `json:"enabled"`
	Answers int   `json:"answers" doc:"How many are kept."`
	Bytes   int64 `json:"bytes"`
	Evicted int64 `json:"evicted" doc:"How many gave way to others since the start."`
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
		return Reply{}, err
	}
	return Reply{message: "The cache of answers is empty.", data: a.viewAnswerCache()}, nil
}
