package v1

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/patchbay-ai/patchbay/internal/dialect"
	"github.com/patchbay-ai/patchbay/internal/dialect/compaction"
	"github.com/patchbay-ai/patchbay/internal/dialect/responses"
	"github.com/patchbay-ai/patchbay/internal/plain/say"
	"github.com/patchbay-ai/patchbay/internal/request/jsonscan"
	"github.com/patchbay-ai/patchbay/internal/request/jsonwrite"
	"github.com/patchbay-ai/patchbay/internal/request/recall"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
)

// openResponses returns the client of one request of the Responses API. It finds the
// earlier responses that the request continues in the store, and keeps the new one there.
func (a *API) openResponses(x *exchange) (*dialect.Client, error) {
	conversation, past, err := a.openConversation(x)
	if err != nil {
		return nil, err
	}
	if past != nil && x.request.Body.Root().Get("store").Kind() != jsonscan.False {
		conversation.Keep = func(req *responses.Request, response []byte) {
			a.keepAnswer(past.ctx, &recall.Answer{
				ID: req.ID, Owner: past.owner, Previous: past.ids, Input: req.Input, Response: response,
				Run: x.request.Run,
			})
		}
		x.passed.keep = func(id, instance string) {
			a.keepAnswer(past.ctx, &recall.Answer{ID: id, Owner: past.owner, Instance: instance, Run: x.request.Run})
		}
		x.request.Passed = func(id string) { x.passed.id = id }
	}
	return responses.NewClient(&x.request, conversation), nil
}

// openCompact returns the client of a request to make a conversation short.
func (a *API) openCompact(x *exchange) (*dialect.Client, error) {
	conversation, _, err := a.openConversation(x)
	if err != nil {
		return nil, err
	}
	return compaction.NewClient(&x.request, conversation), nil
}

// openInputTokens prepares a request for a number of tokens, which has no client: no answer is
// translated.
func (a *API) openInputTokens(x *exchange) (*dialect.Client, error) {
	conversation, past, err := a.openConversation(x)
	if err != nil {
		return nil, err
	}
	responses.NewClient(&x.request, conversation)
	if past != nil {
		x.before = past.elements()
	}
	return nil, nil
}

// estimateInput returns the reply to a request for the number of tokens that no backend has
// answered.
func estimateInput(x *exchange) []byte {
	return compaction.CountBody(compaction.Estimate(&x.request, x.before), true)
}

// openConversation finds the conversation to which a request belongs, and the kept answers
// of earlier requests; past is nil where the gateway keeps none.
func (a *API) openConversation(x *exchange) (c responses.Conversation, past *pastAnswers, err error) {
	root := x.request.Body.Root()
	c.Translate = responses.NamesTranslated(root)
	if a.answers == nil {
		return c, nil, nil
	}
	past = &pastAnswers{
		ctx: x.r.Context(), store: a.answers, owner: ownerOf(x.caller.Grant),
		limit: int(x.table.Limits.JSONBody), reserve: x.reserve,
	}
	c.Past, c.Recall = past, past.recall
	previous := root.Get("previous_response_id")
	if previous.Kind() != jsonscan.String {
		return c, past, nil
	}
	c.Previous = string(previous.Text())
	if err := past.find(c.Previous); err != nil {
		return c, nil, err
	}
	x.request.Run = past.run
	c.Instance = past.instance
	c.Translate = c.Instance == ""
	return c, past, nil
}

// passedAnswer is a response that a backend keeps. Requests that continue it go to the
// same instance.
type passedAnswer struct {
	id   string
	keep func(id, instance string)
}

// stick keeps the name of the instance that made the response. It is called when the answer
// has begun, because the id is known only then.
func (p *passedAnswer) stick(instance string) {
	if p.id != "" && p.keep != nil {
		p.keep(p.id, instance)
	}
}

// keepAnswer puts an answer into the store. The client gets it in any case. If the answer
// is too large, or the store does not take it, no request can continue it by its id.
func (a *API) keepAnswer(ctx context.Context, answer *recall.Answer) {
	a.warnUnkept(ctx, a.answers.Put(ctx, answer))
}

// warnUnkept logs that something could not be kept, now and then.
func (a *API) warnUnkept(ctx context.Context, err error) {
	if err == nil || errors.Is(err, recall.ErrTooLarge) || ctx.Err() != nil {
		return
	}
	now := time.Now().Unix()
	if last := a.warned.Load(); now-last >= warnEvery && a.warned.CompareAndSwap(last, now) {
		a.options.Log.Warn("responses are not kept: clients cannot continue them by their ids", "error", err)
	}
}

// warnEvery is the number of seconds between two warnings that responses are not kept.
const warnEvery = 10

// pastAnswers gives access to the earlier responses of a key.
type pastAnswers struct {
	ctx     context.Context //nolint:containedctx // it lives as long as the request
	store   recall.Store
	owner   recall.Owner
	limit   int // how long a conversation may be
	reserve func(bytes int) error

	ids   []string // of the conversation, the first one first
	chain []*recall.Answer
	turns [][]byte // the items of the chain, once they were asked for; see elements
	// instance is the id of the instance that keeps the conversation, if it is not here.
	instance string
	run      string // that made the last response
	// items holds the items of the responses that were looked up, by response and id, and
	// used is the length of the items that were returned.
	items map[string]map[string][]byte
	used  int
}

// mostTurns is the greatest number of responses in a conversation.
const mostTurns = 1000

// find finds the conversation that ends with a response.
func (p *pastAnswers) find(id string) error {
	last, err := p.get(id)
	if err != nil {
		return err
	}
	if last[0] == nil {
		return responses.NotFound(id)
	}
	p.run = last[0].Run
	if p.instance = last[0].Instance; p.instance != "" {
		return nil
	}
	before, err := p.get(last[0].Previous...)
	if err != nil {
		return err
	}
	if missing := slices.Index(before, nil); missing >= 0 {
		return responses.NotFound(last[0].Previous[missing])
	}
	if len(before) >= mostTurns {
		return schema.InvalidValue("previous_response_id", say.New("call.turns", "most", mostTurns))
	}
	p.chain = append(before, last[0])
	p.ids = append(slices.Clone(last[0].Previous), id)
	return nil
}

func (p *pastAnswers) get(ids ...string) ([]*recall.Answer, error) {
	if len(ids) == 0 {
		return nil, nil
	}
	found, err := p.store.Get(p.ctx, p.owner, ids...)
	if err != nil {
		if p.ctx.Err() != nil {
			return nil, context.Cause(p.ctx)
		}
		return nil, storeUnavailable()
	}
	return found, nil
}

func storeUnavailable() *schema.Error {
	known := schema.CodedError(schema.CodeServiceUnavailable, "call.responses_away")
	known.RetryAfter = time.Second
	return known
}

// Conversation returns the items of the conversation that find has found.
func (p *pastAnswers) Conversation(string) ([]byte, error) {
	size := 0
	for _, a := range p.chain {
		size += len(a.Input) + len(a.Response)
	}
	if size > p.limit {
		return nil, schema.CodedError(schema.CodeRequestTooLarge,
			"call.conversation_large", "size", size, "most", p.limit)
	}
	if err := p.reserve(2 * size); err != nil {
		return nil, err
	}
	w := jsonwrite.Writer{Out: make([]byte, 0, size)}
	for _, elements := range p.elements() {
		w.Raw(elements)
	}
	return w.Out, nil
}

// elements returns the items of the conversation, in several parts that are elements of a
// JSON array.
func (p *pastAnswers) elements() [][]byte {
	if p.turns != nil {
		return p.turns
	}
	for _, a := range p.chain {
		for _, elements := range [...][]byte{a.Input, outputOf(a)} {
			if len(elements) > 0 {
				p.turns = append(p.turns, elements)
			}
		}
	}
	return p.turns
}

// recall returns the conversation that find has found, and the items that an input refers
// to, as JSON.
func (p *pastAnswers) recall(input jsonscan.Value) [][]byte {
	recalled := slices.Clip(p.elements())
	for item := range input.All() {
		if id, isReference := responses.ReferenceIn(item); isReference {
			if item, err := p.findItem(id); err == nil && item != nil {
				recalled = append(recalled, item)
			}
		}
	}
	return recalled
}

// outputOf returns the items of a response, as elements of a JSON array.
func outputOf(a *recall.Answer) []byte {
	doc := jsonscan.Document{AllowDuplicateKeys: true}
	if doc.Parse(a.Response) != nil {
		return nil
	}
	output := doc.Root().Get("output")
	if output.Kind() != jsonscan.Array || output.Empty() {
		return nil
	}
	raw := output.Raw()
	return raw[1 : len(raw)-1]
}

// mostReferred is the greatest number of responses that the items of one request may refer
// to.
const mostReferred = 256

// Item returns an item of a response, of its output or its input. All items that a request
// refers to are bounded together like a body: a short reference may bring a long item.
func (p *pastAnswers) Item(id string) ([]byte, error) {
	item, err := p.findItem(id)
	if item == nil || err != nil {
		return nil, err
	}
	if p.used += len(item); p.used > p.limit {
		return nil, schema.CodedError(schema.CodeRequestTooLarge, "call.items_large", "most", p.limit)
	}
	return item, p.reserve(3 * len(item))
}

// findItem returns an item of a response, nil where it is not known.
func (p *pastAnswers) findItem(id string) ([]byte, error) {
	response, ours := responses.ResponseOf(id)
	if !ours {
		return nil, nil
	}
	items, known := p.items[response]
	if !known {
		if len(p.items) == mostReferred {
			return nil, schema.BadField("input", "value.many_responses", "most", mostReferred)
		}
		found, err := p.get(response)
		if err != nil {
			return nil, err
		}
		items = itemsByID(found[0])
		if p.items == nil {
			p.items = map[string]map[string][]byte{}
		}
		p.items[response] = items
	}
	return items[id], nil
}

// itemsByID returns the items of a response, of its output and its input.
func itemsByID(a *recall.Answer) map[string][]byte {
	items := map[string][]byte{}
	if a == nil {
		return items
	}
	for _, elements := range [][]byte{outputOf(a), a.Input} {
		for _, item := range itemsOf(elements) {
			if id := string(item.Get("id").Text()); items[id] == nil {
				items[id] = item.Raw()
			}
		}
	}
	return items
}

// itemsOf returns the elements of an array.
func itemsOf(elements []byte) []jsonscan.Value {
	doc := jsonscan.Document{AllowDuplicateKeys: true}
	if doc.Parse(slices.Concat([]byte{'['}, elements, []byte{']'})) != nil {
		return nil
	}
	var items []jsonscan.Value
	for item := range doc.Root().All() {
		items = append(items, item)
	}
	return items
}
