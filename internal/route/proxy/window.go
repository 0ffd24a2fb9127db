package proxy

import (
	"context"
	"errors"
	"hash/maphash"
	"io"
	"net/http"
	"sync"
	"time"

	"github.com/patchbay-ai/patchbay/internal/dialect/engines"
	"github.com/patchbay-ai/patchbay/internal/hosts/backend"
	"github.com/patchbay-ai/patchbay/internal/hosts/transport"
	"github.com/patchbay-ai/patchbay/internal/request/estimate"
	"github.com/patchbay-ai/patchbay/internal/request/jsonscan"
	"github.com/patchbay-ai/patchbay/internal/request/jsonwrite"
	"github.com/patchbay-ai/patchbay/internal/request/naming"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
	"github.com/patchbay-ai/patchbay/internal/route/reply"
	"github.com/patchbay-ai/patchbay/internal/route/routing"
	"github.com/patchbay-ai/patchbay/internal/route/survey"
)

// window is what a request needs of context windows.
type window struct {
	prompt                           estimate.Prompt
	isMeasured, isBounded, isLimited bool // isBounded: with the lower bound
	// counted is the model whose engine has counted the tokens of the prompt, and count their number.
	counted string
	count   int64
	// above is the window of the backend that found the prompt too long, and aboveModel its model.
	above      int64
	aboveModel string
}

// excludeNarrow excludes the instances of the pool that cannot hold the prompt. The length of the body
// decides first whether the prompt is measured at all.
func (c *choice) excludeNarrow() {
	if prompt, matters := c.promptFor(c.pool); matters {
		c.excluded.Fit(c.pool, prompt, c.window.above, c.window.aboveModel == c.pool.Model)
	} else {
		c.excluded.Narrow, c.excluded.Prompt = c.excluded.Narrow[:0], estimate.Prompt{}
	}
}

// promptFor returns the length of the prompt, and whether it matters for a pool.
func (c *choice) promptFor(pool *routing.Pool) (estimate.Prompt, bool) {
	narrowest, isEven := pool.Narrowest()
	w := &c.window
	if narrowest == 0 || c.onlyLoads() || c.link != nil || w.above == 0 &&
		!estimate.MayExceed(c.Asks, c.Recalled(), narrowest, !isEven || pool.HasFallbacks) {
		return estimate.Prompt{}, false
	}
	isLong := estimate.MayExceed(c.Asks, c.Recalled(), narrowest, false)
	if !w.isMeasured || isLong && !w.isBounded {
		w.isMeasured, w.isBounded = true, isLong
		w.prompt, w.isLimited = estimate.PromptOf(c.Asks, c.Recalled(), isLong)
	}
	prompt := w.prompt
	if w.counted == pool.Model {
		prompt = estimate.Prompt{Least: w.count, Likely: w.count}
	}
	return prompt, w.isLimited
}

// waitForLarger returns the error for a prompt that no instance of the model can hold, given that of
// the model: a fallback that may hold it, and takes nothing now, makes it a passing one.
func (c *choice) waitForLarger(err error) error {
	var tooLong *schema.Error
	if !errors.As(err, &tooLong) || tooLong.Code != schema.CodeContextLength || c.pool == nil {
		return err
	}
	service := c.table.Service(c.Asks.Service)
	for _, to := range service.Fallbacks(string(c.Asks.Model), naming.Context) {
		pool := service.Find(to.Model)
		if pool == nil || !c.MayUse(to) {
			continue
		}
		prompt, _ := c.promptFor(pool)
		for _, i := range pool.Instances {
			if survey.Holds(i, prompt) && c.Caller.Grant.MayCall(i.ID) {
				c.excluded.Reason, c.stale = nil, true
				return c.survey().Unavailable()
			}
		}
	}
	return err
}

// pickWider acquires an instance of the model with a larger window than the one that found the prompt
// too long.
func (c *choice) pickWider(failed *reply.Fault, a *attempt) bool {
	window, called := max(a.instance.Sizes().Window, failed.Err.Window), a.instance
	if window <= c.window.above {
		return false
	}
	c.window.above, c.window.aboveModel = window, c.pool.Model
	return c.refreshPool() == nil && survey.Contains(c.excluded.Narrow, called) && c.acquire(a)
}

const (
	// countTime is how long an engine may take to count the tokens of a prompt.
	countTime = 50 * time.Millisecond
	// maxCounts is how many counts are remembered.
	maxCounts = 1024
)

// counts remembers how many tokens prompts have, by their content and model.
type counts struct {
	mu  sync.Mutex
	all map[uint64]int64
}

func (k *counts) of(key uint64) int64 {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.all[key]
}

func (k *counts) set(key uint64, count int64) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.all == nil || len(k.all) >= maxCounts {
		k.all = map[uint64]int64{}
	}
	k.all[key] = count
}

// countPrompt lets an engine count the tokens of a prompt that is about as long as its window, if
// anything else could take it.
func (c *choice) countPrompt(ctx context.Context) {
	if c.excluded.Prompt.Likely == 0 || c.window.counted != "" {
		return
	}
	likely := c.excluded.Prompt.Likely
	var asks *backend.Instance
	hasLarger := len(c.table.Service(c.Asks.Service).Fallbacks(string(c.Asks.Model), naming.Context)) > 0
	narrowest, _ := c.pool.Narrowest()
	for _, i := range c.pool.Instances {
		size := i.Sizes().Window
		hasLarger = hasLarger || survey.Holds(i, estimate.Prompt{Least: narrowest + 1})
		if 4*likely >= 3*size && 4*likely <= 5*size && i.Target.Native(schema.DoorTokenize) != nil && i.Healthy() {
			asks = i
		}
	}
	if asks == nil || !hasLarger || c.Asks.Service != schema.Chat {
		return
	}
	words := estimate.Words(c.Asks)
	key := maphash.Bytes(c.proxy.seed, words) ^ maphash.String(c.proxy.seed, c.pool.Model)
	count := c.proxy.counts.of(key)
	if count == 0 {
		count = c.proxy.count(ctx, asks, words)
	}
	if count > 0 {
		c.proxy.counts.set(key, count)
		c.window.counted, c.window.count = c.pool.Model, count
		c.use(c.pool)
	}
}

// count asks an engine for the number of tokens of a text, 0 if it does not answer in time.
func (p *Proxy) count(ctx context.Context, i *backend.Instance, words []byte) int64 {
	ctx, cancel := context.WithTimeout(ctx, countTime)
	defer cancel()
	target := i.Target.Native(schema.DoorTokenize)
	var w jsonwrite.Writer
	w.Object()
	w.Member("model", jsonwrite.AppendText(nil, i.UpstreamModel()))
	for _, name := range [...]string{"prompt", "content"} { // vLLM and llama.cpp
		w.Member(name, append(append([]byte{'"'}, words...), '"'))
	}
	w.EndObject()
	call, err := backend.NewCall(ctx, target, http.MethodPost, target.Path, string(w.Out))
	if err != nil {
		return 0
	}
	response, err := p.client.Send(ctx, &i.Origin, call, transport.Timeouts{})
	if err != nil {
		return 0
	}
	defer func() { _ = response.Close() }()
	body, err := io.ReadAll(io.LimitReader(response, engines.MaxJSON))
	var doc jsonscan.Document
	doc.Deep = true
	if err != nil || response.Status != http.StatusOK || doc.Parse(body) != nil {
		return 0
	}
	if count, ok := doc.Root().Get("count").Int(); ok {
		return count
	}
	return int64(doc.Root().Get("tokens").Len())
}
