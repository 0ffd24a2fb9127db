package batching

import (
	"errors"
	"io"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strconv"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/patchbay-ai/patchbay/internal/plain/say"
	"github.com/patchbay-ai/patchbay/internal/request/jsonwrite"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
	"github.com/patchbay-ai/patchbay/internal/serve/web"
	"github.com/patchbay-ai/patchbay/internal/wings/batches"
	"github.com/patchbay-ai/patchbay/internal/wings/batches/files"
)

// messageBatch is a batch as clients of Anthropic read it.
type messageBatch struct {
	ID                string        `json:"id"`
	Type              string        `json:"type" enum:"message_batch"`
	ProcessingStatus  string        `json:"processing_status" enum:"in_progress,canceling,ended"`
	RequestCounts     messageCounts `json:"request_counts"`
	EndedAt           *string       `json:"ended_at"`
	CreatedAt         string        `json:"created_at"`
	ExpiresAt         string        `json:"expires_at"`
	ArchivedAt        *string       `json:"archived_at"`
	CancelInitiatedAt *string       `json:"cancel_initiated_at"`
	ResultsURL        *string       `json:"results_url" doc:"A path of this gateway."`
}

type messageCounts struct {
	Processing int `json:"processing"`
	Succeeded  int `json:"succeeded"`
	Errored    int `json:"errored"`
	Canceled   int `json:"canceled"`
	Expired    int `json:"expired"`
}

type messageBatchList struct {
	Data    []messageBatch `json:"data"`
	FirstID *string        `json:"first_id"`
	LastID  *string        `json:"last_id"`
	HasMore bool           `json:"has_more"`
}

type deletedMessageBatch struct {
	ID   string `json:"id"`
	Type string `json:"type" enum:"message_batch_deleted"`
}

type messageBatchRequest struct {
	Requests []messageBatchItem `json:"requests" required:"true"`
}

type messageBatchItem struct {
	CustomID string         `json:"custom_id" required:"true"`
	Params   map[string]any `json:"params" required:"true" doc:"A request to /v1/messages."`
}

type messageBatchQuery struct {
	BeforeID string `json:"before_id"`
	AfterID  string `json:"after_id"`
	Limit    int    `json:"limit" minimum:"1" maximum:"1000"`
}

const messagesPath = "/v1/messages"

func (a *API) addMessageBatches(add adder) {
	add("POST /v1/messages/batches", (*visit).createMessageBatch, web.Route{
		Summary: "Run requests in slots that nobody else needs, in the shape of Anthropic's Message Batches API",
		Body:    messageBatchRequest{}, Reply: messageBatch{}, Error: messagesError(),
		Errors: []int{http.StatusRequestTimeout, http.StatusRequestEntityTooLarge},
	})
	add("GET /v1/messages/batches", (*visit).listMessageBatches,
		web.Route{Summary: "The message batches of the caller's tenant or key, the newest first",
			Query: messageBatchQuery{}, Reply: messageBatchList{}, Error: messagesError()})
	add("GET /v1/messages/batches/{id}", getBatch(batches.Anthropic),
		web.Route{Summary: "One message batch", Reply: messageBatch{}, Error: messagesError()})
	add("GET /v1/messages/batches/{id}/results", (*visit).messageBatchResults, web.Route{
		Summary: "The results of a message batch that has ended, one in a line", Media: map[string]any{mediaLines: ""},
		Error: messagesError(), Errors: []int{http.StatusBadRequest},
	})
	add("POST /v1/messages/batches/{id}/cancel", cancelBatch(batches.Anthropic), web.Route{
		Summary: "Stop a message batch; requests that run end, and what was done is kept", Reply: messageBatch{},
		Error: messagesError(), Errors: []int{http.StatusBadRequest},
	})
	add("DELETE /v1/messages/batches/{id}", (*visit).deleteMessageBatch, web.Route{
		Summary: "Delete a message batch that has ended, with its results", Reply: deletedMessageBatch{},
		Error: messagesError(), Errors: []int{http.StatusBadRequest},
	})
}

const mediaLines = "application/x-jsonl"

func viewMessageBatch(p batches.Progress) messageBatch {
	b := p.Batch
	view := messageBatch{
		ID: b.ID, Type: "message_batch", ProcessingStatus: "in_progress", CreatedAt: web.Time(b.Created),
		ExpiresAt: web.Time(b.Expires),
		EndedAt:   web.TimeOrNil(b.Ended), CancelInitiatedAt: web.TimeOrNil(b.Cancelling),
		RequestCounts: messageCounts{Succeeded: p.Counts.Done, Errored: p.Counts.Failed},
	}
	left := b.Lines - p.Counts.Done - p.Counts.Failed
	switch b.State {
	case batches.Cancelled:
		view.RequestCounts.Canceled = left
		if len(b.Faults) > 0 { // nobody wanted it, and its results say why
			view.RequestCounts.Canceled, view.RequestCounts.Errored = 0, p.Counts.Failed+left
		}
	case batches.Expired:
		view.RequestCounts.Expired = left
	case batches.Failed:
		view.RequestCounts.Errored = b.Lines
	case batches.Cancelling:
		view.ProcessingStatus, view.RequestCounts.Processing = "canceling", left
	default:
		view.RequestCounts.Processing = left
	}
	if b.State.IsEnd() {
		results := messagesPath + "/batches/" + b.ID + "/results"
		view.ProcessingStatus, view.ResultsURL = "ended", &results
	}
	return view
}

// createMessageBatch answers POST /v1/messages/batches. The requests go to a file as they
// come, one in a line.
func (v *visit) createMessageBatch() (any, error) {
	if v.r.ContentLength > v.options.LargestFile() {
		return nil, unread{files.ErrTooLarge}
	}
	u, err := v.options.Files.Create(v.r.Context(),
		files.File{Owner: v.owner, Purpose: purposeBatch, Filename: "requests.jsonl", IsHidden: true})
	if err != nil {
		return nil, unread{err}
	}
	defer u.Abort()
	body := &countedReader{from: v.r.Body, most: v.options.LongestLine() + 64<<10}
	reader := messageReader{from: jsontext.NewDecoder(body), body: body, to: u, seen: map[string]bool{},
		most: v.options.MaxLines()}
	if err := reader.readAll(); err != nil {
		return nil, unread{v.requestsError(err)}
	}
	if reader.lines == 0 {
		return nil, schema.BadField("requests", "value.some_request")
	}
	file, err := u.Commit(v.r.Context())
	if err != nil {
		return nil, err
	}
	const window = 24 * time.Hour
	made, err := v.options.Engine.Create(v.r.Context(), batches.Batch{
		Owner: v.batchOwner(), Form: batches.Anthropic, Endpoint: messagesPath, Input: file.ID,
		User:   v.user,
		Window: "24h", Lines: reader.lines,
	}, window)
	if err != nil {
		return nil, errors.Join(err, v.options.Files.Delete(v.r.Context(), file))
	}
	return viewOf(batches.Progress{Batch: made}), nil
}

// countedReader fails where one element has more bytes than a request may have.
type countedReader struct {
	from       io.Reader
	most, read int64
}

var errLongElement = errors.New("an element is too long")

// Read reads the body.
func (c *countedReader) Read(p []byte) (int, error) {
	n, err := c.from.Read(p)
	if c.read += int64(n); c.read > c.most {
		return 0, errLongElement
	}
	return n, err
}

// messageReader reads the requests of a message batch into a file.
type messageReader struct {
	from  *jsontext.Decoder
	body  *countedReader
	to    *files.Upload
	lines int
	most  int // of lines
	seen  map[string]bool
	text  jsonwrite.Writer
}

func (m *messageReader) readAll() error {
	if err := m.expect('{'); err != nil {
		return err
	}
	for m.from.PeekKind() == '"' {
		name, err := m.from.ReadToken()
		if err != nil {
			return err
		}
		if name.String() != "requests" {
			if err := m.from.SkipValue(); err != nil {
				return err
			}
			continue
		}
		if err := m.expect('['); err != nil {
			return err
		}
		for m.from.PeekKind() == '{' {
			if err := m.readOne(); err != nil {
				return err
			}
		}
		if err := m.expect(']'); err != nil {
			return err
		}
	}
	return m.expect('}')
}

func (m *messageReader) expect(kind jsontext.Kind) error {
	token, err := m.from.ReadToken()
	if err == nil && token.Kind() != kind {
		return errNoRequests
	}
	return err
}

var (
	errNoRequests = errors.New("no list of requests")
	validID       = regexp.MustCompile(`^[a-zA-Z0-9_-]{1,64}$`)
)

func (m *messageReader) readOne() error {
	if m.lines == m.most {
		return schema.CodedError(schema.CodeRequestTooLarge, "batch.too_many", "most", m.most)
	}
	m.body.read = 0
	value, err := m.from.ReadValue()
	if err != nil {
		return err
	}
	var one struct {
		CustomID string         `json:"custom_id"`
		Params   jsontext.Value `json:"params"`
	}
	if err := json.Unmarshal(value, &one); err != nil {
		return errNoRequests
	}
	place := "requests." + strconv.Itoa(m.lines)
	switch {
	case !validID.MatchString(one.CustomID):
		return schema.BadField(place+".custom_id", "value.custom_id")
	case m.seen[one.CustomID]:
		return schema.BadField(place+".custom_id", "value.custom_id_twice")
	case one.Params.Kind() != '{':
		return schema.MissingParameter(place + ".params")
	}
	var asks struct {
		Model  jsontext.Value `json:"model"`
		Stream jsontext.Value `json:"stream"`
	}
	if err := json.Unmarshal(one.Params, &asks); err != nil {
		return errNoRequests
	}
	if asks.Model.Kind() != '"' || string(asks.Model) == `""` {
		return schema.MissingParameter(place + ".params.model")
	}
	if string(asks.Stream) == "true" {
		return schema.InvalidValue(place+".params.stream",
			say.New("batch.stream"))
	}
	m.seen[one.CustomID] = true
	m.lines++
	if err := one.Params.Compact(); err != nil {
		return err
	}
	t := &m.text
	t.Begin(t.Out[:0], nil)
	t.Open(`{"custom_id":`)
	t.Text([]byte(one.CustomID))
	t.Raw([]byte(`"method":"POST","url":"` + messagesPath + `"`))
	t.Name("body")
	t.Raw(one.Params)
	t.EndObject()
	_, err = m.to.Write(append(t.Out, '\n'))
	return err
}

// requestsError returns the caller's error for requests that cannot be read.
func (v *visit) requestsError(err error) error {
	var syntax *jsontext.SyntacticError
	switch {
	case errors.Is(err, errLongElement):
		return schema.CodedError(schema.CodeRequestTooLarge,
			"batch.long_request", "size", v.options.LongestLine())
	case errors.Is(err, os.ErrDeadlineExceeded):
		return schema.CodedError(schema.CodeRequestTimeout, "call.body_late")
	case errors.Is(err, errNoRequests):
		return schema.BadField("requests", "value.request_list")
	case errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, io.EOF):
		return schema.CodedError(schema.CodeInvalidBody, "call.body_short")
	case errors.As(err, &syntax):
		return schema.CodedError(schema.CodeInvalidJSON, "call.not_json_plain")
	}
	return err
}

// listMessageBatches answers GET /v1/messages/batches.
func (v *visit) listMessageBatches() (any, error) {
	const usual, most = 20, 1000
	limit, err := v.limit(usual, most)
	if err != nil {
		return nil, err
	}
	query := v.r.URL.Query()
	listing := batches.Listing{Scope: v.scope, Form: batches.Anthropic, After: query.Get("after_id"), Limit: limit}
	if before := query.Get("before_id"); before != "" {
		listing.After, listing.IsAscending = before, true
	}
	found, hasMore, err := v.options.Engine.List(v.r.Context(), listing)
	if errors.Is(err, batches.ErrNotFound) {
		return nil, schema.InvalidValue("after_id", say.New("batch.cursor"))
	}
	if err != nil {
		return nil, err
	}
	if listing.IsAscending {
		slices.Reverse(found)
	}
	list := messageBatchList{Data: []messageBatch{}, HasMore: hasMore}
	for _, p := range found {
		list.Data = append(list.Data, viewMessageBatch(p))
	}
	if len(found) > 0 {
		list.FirstID, list.LastID = &found[0].ID, &found[len(found)-1].ID
	}
	return list, nil
}

// deleteMessageBatch answers DELETE /v1/messages/batches/{id}.
func (v *visit) deleteMessageBatch() (any, error) {
	p, err := v.find(batches.Anthropic)
	if err != nil {
		return nil, err
	}
	if err := v.options.Engine.Delete(v.r.Context(), v.scope, p.ID); err != nil {
		return nil, err
	}
	return deletedMessageBatch{p.ID, "message_batch_deleted"}, nil
}

// messageBatchResults answers GET /v1/messages/batches/{id}/results.
func (v *visit) messageBatchResults() (any, error) {
	p, err := v.find(batches.Anthropic)
	if err != nil {
		return nil, err
	}
	if !p.State.IsEnd() {
		return nil, schema.CodedError(schema.CodeInvalidValue, "batch.no_results")
	}
	if p.State == batches.Failed {
		return nil, schema.CodedError(schema.CodeInvalidValue, "batch.failed", "why", reasonOf(p.Faults))
	}
	if p.Output == "" { // it was stopped before its first line
		v.w.Header().Set("Content-Type", mediaLines)
		v.w.WriteHeader(http.StatusOK)
		return nil, nil
	}
	results, err := v.options.Files.Find(v.r.Context(), v.scope, p.Output)
	if err != nil {
		return nil, err
	}
	return nil, v.stream(results, mediaLines)
}

// reasonOf returns why a batch failed.
func reasonOf(faults []batches.Fault) say.Sentence {
	if len(faults) == 0 {
		return say.New("batch.no_reason")
	}
	first := faults[0]
	if first.Line == 0 {
		return first.Said
	}
	return say.New("batch.request", "line", first.Line, "fault", first.Said)
}
