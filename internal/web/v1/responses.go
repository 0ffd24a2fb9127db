package v1

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/patchbay-ai/patchbay/internal/answers"
	"github.com/patchbay-ai/patchbay/internal/dialect"
	"github.com/patchbay-ai/patchbay/internal/dialect/responses"
	"github.com/patchbay-ai/patchbay/internal/jsonscan"
	"github.com/patchbay-ai/patchbay/internal/jsonwrite"
	"github.com/patchbay-ai/patchbay/internal/proxy"
	"github.com/patchbay-ai/patchbay/internal/schema"
	"github.com/patchbay-ai/patchbay/internal/web"
)

// openResponses returns the client of one request of the Responses API: what the request
// continues is found in the store, and what it makes is kept there.
func (a *API) openResponses(x *exchange) (dialect.Client, error) {
	root := x.request.Source.Body.Root()
	client := &responses.Client{Translate: responses.NamesTranslated(root)}
	if a.options.Answers == nil {
		return client, nil
	}
	past := &pastAnswers{
		ctx: x.r.Context(), store: a.options.Answers, owner: x.caller.KeyID,
		limit: int(x.table.Limits.JSONBody), reserve: x.reserve,
	}
	client.Past, client.Recall = past, past.recall
	if root.Get("store").Kind() != jsonscan.False {
		client.Keep = func(req *responses.Request, response []byte) {
			a.keepAnswer(past.ctx, &answers.Answer{
				ID: req.ID, Owner: past.owner, Previous: past.ids, Input: req.Input, Response: response,
			})
		}
		x.passed.keep = func(id, instance string) {
			a.keepAnswer(past.ctx, &answers.Answer{ID: id, Owner: past.owner, Instance: instance})
		}
		x.request.Source.Passed = func(id string) { x.passed.id = id }
	}
	previous := root.Get("previous_response_id")
	if previous.Kind() != jsonscan.String {
		return client, nil
	}
	client.Previous = string(previous.Text())
	if err := past.find(client.Previous); err != nil {
		return nil, err
	}
	client.Instance = past.instance
	client.Translate = client.Instance == ""
	return client, nil
}

// passedAnswer is a response that a backend keeps. Requests that continue it go to the
// same instance.
type passedAnswer struct {
	id   string
	keep func(id, instance string)
}

// stick keeps which instance made the response. It is called when the answer has begun,
// so that the id is known.
func (p *passedAnswer) stick(instance string) {
	if p.id != "" && p.keep != nil {
		p.keep(p.id, instance)
	}
}

// keepAnswer puts an answer into the store. The client gets it in any case: one that is
// too large, or that the store does not take, cannot be continued by its id.
func (a *API) keepAnswer(ctx context.Context, answer *answers.Answer) {
	err := a.options.Answers.Put(ctx, answer)
	if err == nil || errors.Is(err, answers.ErrTooLarge) || ctx.Err() != nil {
		return
	}
	now := time.Now().Unix()
	if last := a.warned.Load(); now-last >= warnEvery && a.warned.CompareAndSwap(last, now) {
		a.options.Log.Warn("responses are not kept: clients cannot continue them by their ids", "error", err)
	}
}

// warnEvery is the number of seconds between two warnings that responses are not kept.
const warnEvery = 10

// pastAnswers is what the earlier responses of a key left behind.
type pastAnswers struct {
	ctx     context.Context //nolint:containedctx // it lives as long as the request
	store   answers.Store
	owner   string
	limit   int // how long a conversation may be
	reserve func(bytes int) error

	ids   []string // of the conversation, the first one first
	chain []*answers.Answer
	turns [][]byte // the items of the chain, once they were asked for; see elements
	// instance is the id of the instance that keeps the conversation, if it is not here.
	instance string
	// items are those of the responses that were looked up, by response and id, and
	// used is the length of the items that were returned.
	items map[string]map[string][]byte
	used  int
}

// mostTurns is how many responses a conversation may have.
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
		return schema.InvalidValue("previous_response_id", "The conversation has more than "+strconv.Itoa(mostTurns)+" responses. Begin a new one, and send what matters as 'input'.")
	}
	p.chain = append(before, last[0])
	p.ids = append(slices.Clone(last[0].Previous), id)
	return nil
}

func (p *pastAnswers) get(ids ...string) ([]*answers.Answer, error) {
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
	known := schema.NewError(schema.CodeServiceUnavailable, "The store of responses cannot be reached now.")
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
		return nil, schema.NewError(schema.CodeRequestTooLarge, "The conversation before this request has "+strconv.Itoa(size)+
			" bytes, more than the "+strconv.Itoa(p.limit)+" that are allowed for a request.")
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
	for item := input.First(); item.Kind() != jsonscan.Absent; item = item.Next() {
		if id, isReference := responses.ReferenceIn(item); isReference {
			if item, err := p.findItem(id); err == nil && item != nil {
				recalled = append(recalled, item)
			}
		}
	}
	return recalled
}

// outputOf returns the items of a response, as elements of a JSON array.
func outputOf(a *answers.Answer) []byte {
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

// mostReferred is how many responses the items of one request may refer to.
const mostReferred = 256

// Item returns an item of a response, of its output or its input. What all references of a
// request bring is bounded like a body: a short reference may stand for a long item.
func (p *pastAnswers) Item(id string) ([]byte, error) {
	item, err := p.findItem(id)
	if item == nil || err != nil {
		return nil, err
	}
	if p.used += len(item); p.used > p.limit {
		return nil, schema.NewError(schema.CodeRequestTooLarge, "The items that 'input' refers to have more than the "+strconv.Itoa(p.limit)+" bytes that are allowed for a request.")
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
			return nil, schema.InvalidValue("input", "'input' refers to items of more than "+strconv.Itoa(mostReferred)+" responses. Send the items themselves.")
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
func itemsByID(a *answers.Answer) map[string][]byte {
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
	for item := doc.Root().First(); item.Kind() != jsonscan.Absent; item = item.Next() {
		items = append(items, item)
	}
	return items
}

// Response answers GET /v1/responses/{id}.
func (a *API) Response(w http.ResponseWriter, r *http.Request) {
	if stream := r.URL.Query().Get("stream"); stream == "true" {
		Fail(w, r, schema.InvalidValue("stream", "A response that is complete is not streamed again. Leave 'stream' out."))
		return
	}
	found := a.findAnswer(w, r)
	switch {
	case found == nil:
	case found.Instance != "":
		a.askInstance(w, r, found, "", func(body []byte) { writeBytes(w, body) })
	default:
		writeBytes(w, found.Response)
	}
}

// askInstance passes a request for a response on to the instance that keeps it, and calls
// use with what that answers. It answers with an error and returns false where there is no
// such answer.
func (a *API) askInstance(w http.ResponseWriter, r *http.Request, found *answers.Answer, more string, use func(body []byte)) bool {
	has, err := a.proxy.Ask(r.Context(), proxy.Question{
		Instance: found.Instance, Door: schema.DoorResponses, Method: r.Method,
		Path: "/" + url.PathEscape(found.ID) + more, Query: r.URL.RawQuery, Client: web.ClientAddr(r, a.options.TrustedProxies),
	}, use)
	var known *schema.Error
	switch {
	case errors.As(err, &known):
		Fail(w, r, known)
	case err != nil:
		Fail(w, r, unexpected(err))
	case !has:
		Fail(w, r, responseNotFound(found.ID))
	default:
		return true
	}
	return false
}

// DeleteResponse answers DELETE /v1/responses/{id}.
func (a *API) DeleteResponse(w http.ResponseWriter, r *http.Request) {
	found := a.findAnswer(w, r)
	if found == nil {
		return
	}
	if found.Instance != "" {
		if !a.askInstance(w, r, found, "", func([]byte) {}) {
			return
		}
	}
	was, err := a.options.Answers.Delete(r.Context(), found.Owner, found.ID)
	switch {
	case err != nil:
		Fail(w, r, storeUnavailable())
	case !was: // somebody else was faster
		Fail(w, r, responseNotFound(found.ID))
	default:
		w.Header()["X-Router-Attempts"] = attemptsText(0)
		web.WriteJSON(w, http.StatusOK, deletedResponse{found.ID, "response", true})
	}
}

type deletedResponse struct {
	ID      string `json:"id"`
	Object  string `json:"object"`
	Deleted bool   `json:"deleted"`
}

// findAnswer returns the response that a request names. It answers with an error and
// returns nil where the caller has no such response.
func (a *API) findAnswer(w http.ResponseWriter, r *http.Request) *answers.Answer {
	owner := ""
	if guard := a.options.Keys.Guard(); guard != nil {
		grant, err := a.grantOf(guard, r.Header, web.ClientAddr(r, a.options.TrustedProxies))
		if err != nil {
			Fail(w, r, err)
			return nil
		}
		owner = grant.ID
	}
	id := r.PathValue("id")
	if a.options.Answers == nil {
		Fail(w, r, responseNotFound(id))
		return nil
	}
	found, err := a.options.Answers.Get(r.Context(), owner, id)
	switch {
	case err != nil:
		Fail(w, r, storeUnavailable())
		return nil
	case found[0] == nil:
		Fail(w, r, responseNotFound(id))
		return nil
	}
	return found[0]
}

func responseNotFound(id string) *schema.Error {
	return schema.NewError(schema.CodeResponseNotFound, "The response '"+shorten(id)+"' was not found. It may have expired, or it was made with another key or with 'store' set to false.")
}

func writeBytes(w http.ResponseWriter, body []byte) {
	header := w.Header()
	header["X-Router-Attempts"] = attemptsText(0)
	header["Content-Type"] = contentJSON
	header["Content-Length"] = []string{strconv.Itoa(len(body))}
	w.WriteHeader(http.StatusOK)
	_, _ = w.Write(body) // a client that left does not need it
}

// The number of input items in one list.
const (
	defaultItems = 20
	mostItems    = 100
)

// InputItems answers GET /v1/responses/{id}/input_items.
func (a *API) InputItems(w http.ResponseWriter, r *http.Request) {
	query := r.URL.Query()
	limit := defaultItems
	if text := query.Get("limit"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 || n > mostItems {
			Fail(w, r, schema.InvalidValue("limit", "'limit' must be between 1 and 100."))
			return
		}
		limit = n
	}
	order := query.Get("order")
	if order != "" && order != "asc" && order != "desc" {
		Fail(w, r, schema.InvalidValue("order", "'order' must be asc or desc."))
		return
	}
	found := a.findAnswer(w, r)
	if found == nil {
		return
	}
	if found.Instance != "" {
		a.askInstance(w, r, found, "/input_items", func(body []byte) { writeBytes(w, body) })
		return
	}
	items := itemsOf(found.Input)
	if order != "asc" {
		slices.Reverse(items)
	}
	if after := query.Get("after"); after != "" {
		at := slices.IndexFunc(items, func(v jsonscan.Value) bool { return string(v.Get("id").Text()) == after })
		if at < 0 {
			Fail(w, r, schema.InvalidValue("after", "'after' must be the id of an input item of the response."))
			return
		}
		items = items[at+1:]
	}
	list := items[:min(limit, len(items))]
	var body jsonwrite.Writer
	body.Open(`{"object":"list","data":[`)
	for _, item := range list {
		body.Raw(item.Raw())
	}
	body.EndArray()
	body.Name("first_id")
	writeIDOf(&body, list[:min(1, len(list))])
	body.Name("last_id")
	writeIDOf(&body, list[max(0, len(list)-1):])
	body.Name("has_more")
	body.Literal(strconv.FormatBool(len(items) > limit))
	body.EndObject()
	writeBytes(w, body.Out)
}

// writeIDOf writes the id of the only item in a list, or null.
func writeIDOf(w *jsonwrite.Writer, list []jsonscan.Value) {
	if len(list) == 0 {
		w.Literal("null")
		return
	}
	w.Raw(list[0].Get("id").Raw())
}

// itemList describes a list of items.
type itemList struct {
	Object  string           `json:"object"`
	Data    []jsontext.Value `json:"data"`
	FirstID *string          `json:"first_id"`
	LastID  *string          `json:"last_id"`
	HasMore bool             `json:"has_more"`
}
