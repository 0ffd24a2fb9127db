package batching

import (
	"errors"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/patchbay-ai/patchbay/internal/plain/say"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
	"github.com/patchbay-ai/patchbay/internal/serve/web"
	"github.com/patchbay-ai/patchbay/internal/wings/batches"
)

// batchView is a batch as clients of OpenAI read it.
type batchView struct {
	ID               string            `json:"id"`
	Object           string            `json:"object" enum:"batch"`
	Endpoint         string            `json:"endpoint"`
	Errors           *batchFaults      `json:"errors"`
	InputFileID      string            `json:"input_file_id"`
	CompletionWindow string            `json:"completion_window"`
	Status           batches.State     `json:"status"`
	OutputFileID     *string           `json:"output_file_id"`
	ErrorFileID      *string           `json:"error_file_id"`
	CreatedAt        int64             `json:"created_at"`
	InProgressAt     *int64            `json:"in_progress_at"`
	ExpiresAt        int64             `json:"expires_at"`
	FinalizingAt     *int64            `json:"finalizing_at"`
	CompletedAt      *int64            `json:"completed_at"`
	FailedAt         *int64            `json:"failed_at"`
	ExpiredAt        *int64            `json:"expired_at"`
	CancellingAt     *int64            `json:"cancelling_at"`
	CancelledAt      *int64            `json:"cancelled_at"`
	RequestCounts    batchCounts       `json:"request_counts"`
	Metadata         map[string]string `json:"metadata"`
}

type batchCounts struct {
	Total     int `json:"total"`
	Completed int `json:"completed"`
	Failed    int `json:"failed"`
}

type batchFaults struct {
	Object string       `json:"object" enum:"list"`
	Data   []batchFault `json:"data"`
}

type batchFault struct {
	Code    string  `json:"code"`
	Message string  `json:"message"`
	Param   *string `json:"param"`
	Line    *int    `json:"line"`
}

type batchList struct {
	Object  string      `json:"object" enum:"list"`
	Data    []batchView `json:"data"`
	FirstID *string     `json:"first_id"`
	LastID  *string     `json:"last_id"`
	HasMore bool        `json:"has_more"`
}

type batchQuery struct {
	After string `json:"after"`
	Limit int    `json:"limit" minimum:"1" maximum:"100"`
}

type batchRequest struct {
	InputFileID        string            `json:"input_file_id" required:"true"`
	Endpoint           string            `json:"endpoint" required:"true"`
	CompletionWindow   string            `json:"completion_window" required:"true"`
	Metadata           map[string]string `json:"metadata"`
	OutputExpiresAfter *expiresAfter     `json:"output_expires_after"`
}

// Choices returns the endpoints that lines of a batch may have.
func (batchRequest) Choices() map[string][]string {
	return map[string][]string{"endpoint": endpoints()}
}

// Docs describes the members that a tag has no room for.
func (batchRequest) Docs() map[string]string {
	return map[string]string{
		"completion_window": "24h, or other hours or minutes.",
	}
}

type expiresAfter struct {
	Anchor  string `json:"anchor" enum:"created_at"`
	Seconds int    `json:"seconds"`
}

// endpoints are the endpoints that the requests of a batch may name.
func endpoints() []string {
	return []string{"/v1/chat/completions", "/v1/completions", "/v1/embeddings", "/v1/responses"}
}

func (a *API) addBatches(add adder) {
	add("POST /v1/batches", (*visit).createBatch, web.Route{
		Summary: "Run the requests of a file in slots that nobody else needs", Body: batchRequest{}, Reply: batchView{},
		Errors: []int{http.StatusNotFound, http.StatusRequestTimeout, http.StatusRequestEntityTooLarge},
	})
	add("GET /v1/batches", (*visit).listBatches,
		web.Route{Summary: "The batches of the caller's tenant or key, the newest first", Query: batchQuery{},
			Reply: batchList{}})
	add("GET /v1/batches/{id}", getBatch(batches.OpenAI), web.Route{Summary: "One batch", Reply: batchView{}})
	add("POST /v1/batches/{id}/cancel", cancelBatch(batches.OpenAI), web.Route{
		Summary: "Stop a batch; requests that run end, and what was done is kept", Reply: batchView{},
		Errors: []int{http.StatusBadRequest},
	})
}

func viewBatch(p batches.Progress) batchView {
	b := p.Batch
	view := batchView{
		ID: b.ID, Object: "batch", Endpoint: b.Endpoint, InputFileID: b.Input, CompletionWindow: b.Window,
		Status:       b.State,
		OutputFileID: textOrNil(b.Output), ErrorFileID: textOrNil(b.Errors), CreatedAt: b.Created.Unix(),
		InProgressAt: seconds(b.Started),
		ExpiresAt:    b.Expires.Unix(), FinalizingAt: seconds(b.Finalizing), CancellingAt: seconds(b.Cancelling),
		RequestCounts: batchCounts{b.Lines, p.Counts.Done, p.Counts.Failed}, Metadata: b.Metadata,
	}
	switch b.State {
	case batches.Completed:
		view.CompletedAt = seconds(b.Ended)
	case batches.Failed:
		view.FailedAt = seconds(b.Ended)
	case batches.Expired:
		view.ExpiredAt = seconds(b.Ended)
	case batches.Cancelled:
		view.CancelledAt = seconds(b.Ended)
	}
	if len(b.Faults) > 0 {
		view.Errors = &batchFaults{Object: "list"}
		for _, fault := range b.Faults {
			told := batchFault{Code: fault.Code, Message: fault.Said.String(), Param: textOrNil(fault.Param)}
			if fault.Line > 0 {
				told.Line = &fault.Line
			}
			view.Errors.Data = append(view.Errors.Data, told)
		}
	}
	return view
}

// createBatch answers POST /v1/batches.
func (v *visit) createBatch() (any, error) {
	body, err := web.ReadBody(v.w, v.r)
	if err != nil {
		return nil, bodyError(err)
	}
	var asks batchRequest
	if err := json.Unmarshal(body, &asks); err != nil {
		return nil, decodeError(err)
	}
	window, life, err := asks.check()
	if err != nil {
		return nil, err
	}
	file, err := v.options.Files.Get(v.r.Context(), v.scope, asks.InputFileID)
	if err != nil {
		return nil, err
	}
	if file.Purpose != purposeBatch {
		return nil, schema.InvalidValue("input_file_id", say.New("files.purpose"))
	}
	made, err := v.options.Engine.Create(v.r.Context(), batches.Batch{
		Owner: v.batchOwner(), Form: batches.OpenAI, Endpoint: asks.Endpoint, Input: file.ID, User: v.user,
		Window: asks.CompletionWindow, Metadata: asks.Metadata, KeepResults: schema.Duration(life),
	}, window)
	return viewOf(batches.Progress{Batch: made}), err
}

// decodeError returns the caller's error for a body of a wrong shape.
func decodeError(err error) error {
	var wrong *json.SemanticError
	if errors.As(err, &wrong) && wrong.JSONPointer != "" {
		field, _, _ := strings.Cut(string(wrong.JSONPointer[1:]), "/")
		switch field {
		case "metadata":
			return schema.InvalidValue(field, say.New("batch.metadata_texts"))
		case "output_expires_after":
			return schema.BadField(field, "value.object")
		case "input_file_id", "endpoint", "completion_window":
			return schema.BadField(field, "value.string")
		}
	}
	return schema.CodedError(schema.CodeInvalidJSON, "batch.body")
}

// bodyError returns the caller's error for a body that could not be read.
func bodyError(err error) error {
	switch {
	case errors.Is(err, web.ErrBodyTooLarge):
		return schema.CodedError(schema.CodeRequestTooLarge, "call.body_1mib")
	case errors.Is(err, web.ErrBodyTooSlow):
		return schema.CodedError(schema.CodeRequestTimeout, "call.body_late")
	}
	return schema.CodedError(schema.CodeInvalidBody, "call.body_unread")
}

// check returns how long a batch may take, and how long its results are kept.
func (b *batchRequest) check() (window, life time.Duration, err error) {
	switch {
	case b.InputFileID == "":
		return 0, 0, schema.MissingParameter("input_file_id")
	case b.Endpoint == "":
		return 0, 0, schema.MissingParameter("endpoint")
	case !slices.Contains(endpoints(), b.Endpoint):
		return 0, 0, schema.BadField("endpoint",
			"value.or", "known", "/v1/chat/completions, /v1/completions, /v1/embeddings",
			"last", "/v1/responses")
	case b.CompletionWindow == "":
		return 0, 0, schema.MissingParameter("completion_window")
	}
	window, err = time.ParseDuration(b.CompletionWindow)
	if err != nil || window < time.Minute {
		return 0, 0, schema.BadField("completion_window", "value.time_window")
	}
	if err := checkMetadata(b.Metadata); err != nil {
		return 0, 0, err
	}
	if after := b.OutputExpiresAfter; after != nil {
		life, err = lifetimeOf(after.Anchor, strconv.Itoa(after.Seconds))
	}
	return window, life, err
}

func checkMetadata(metadata map[string]string) error {
	const most, longestName, longestText = 16, 64, 512
	if len(metadata) > most {
		return schema.BadField("metadata", "value.pairs", "most", "16")
	}
	for name, text := range metadata {
		if len(name) > longestName || len(text) > longestText {
			return schema.InvalidValue("metadata",
				say.New("batch.metadata"))
		}
	}
	return nil
}

// listBatches answers GET /v1/batches.
func (v *visit) listBatches() (any, error) {
	const usual, most = 20, 100
	limit, err := v.limit(usual, most)
	if err != nil {
		return nil, err
	}
	found, hasMore, err := v.options.Engine.List(v.r.Context(), batches.Listing{
		Scope: v.scope, Form: batches.OpenAI, After: v.r.URL.Query().Get("after"), Limit: limit,
	})
	if errors.Is(err, batches.ErrNotFound) {
		return nil, schema.BadField("after", "value.batch_id")
	}
	if err != nil {
		return nil, err
	}
	list := batchList{Object: "list", Data: []batchView{}, HasMore: hasMore}
	for _, p := range found {
		list.Data = append(list.Data, viewBatch(p))
	}
	if len(found) > 0 {
		list.FirstID, list.LastID = &found[0].ID, &found[len(found)-1].ID
	}
	return list, nil
}

// find returns the batch of a form that the path names.
func (v *visit) find(form batches.Form) (batches.Progress, error) {
	p, err := v.options.Engine.Get(v.r.Context(), v.scope, v.r.PathValue("id"))
	if err == nil && p.Form != form {
		err = batches.ErrNotFound
	}
	return p, err
}

// viewOf returns a batch as its clients read it.
func viewOf(p batches.Progress) any {
	if p.Form == batches.Anthropic {
		return viewMessageBatch(p)
	}
	return viewBatch(p)
}

// getBatch answers GET for one batch of a form.
func getBatch(form batches.Form) func(*visit) (any, error) {
	return func(v *visit) (any, error) {
		p, err := v.find(form)
		return viewOf(p), err
	}
}

// cancelBatch answers POST for the end of one batch of a form.
func cancelBatch(form batches.Form) func(*visit) (any, error) {
	return func(v *visit) (any, error) {
		p, err := v.find(form)
		if err == nil {
			p, err = v.options.Engine.Cancel(v.r.Context(), v.scope, p.ID)
		}
		return viewOf(p), err
	}
}
