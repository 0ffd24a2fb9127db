package batches

import (
	"cmp"
	"context"
	"errors"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/patchbay-ai/patchbay/internal/wings/batches/files"
)

// Outcome is how a line of a batch ended, without the texts of its request and its answer.
type Outcome struct {
	// Line is its number among the requests, from 1.
	Line     int
	CustomID string
	// Status is 0 for a line that did not run.
	Status    int
	RequestID string
	// Model is the model that answered, and Code and Message are those of an error.
	Model, Code, Message string
}

// IsFailed reports whether the line has no answer.
func (o *Outcome) IsFailed() bool { return o.Status < 200 || o.Status >= 300 }

// Outcomes returns how the lines of a batch ended, the failed ones first, as many as most of
// each. Those of a batch that runs are the ones that this gateway has run.
func (e *Engine) Outcomes(ctx context.Context, b Batch, most int) (list []Outcome, err error) {
	leave, err := e.ahead.enterHeavy(ctx)
	if err != nil {
		return nil, err
	}
	defer leave()
	failed := 0
	add := func(o Outcome) {
		if o.IsFailed() {
			failed++
		}
		if o.IsFailed() && failed <= most || !o.IsFailed() && len(list)-failed < most {
			list = append(list, o)
		}
	}
	if b.State.IsEnd() {
		for _, id := range []string{b.Errors, b.Output} {
			if err = e.readResults(ctx, b, id, add); err != nil {
				return nil, err
			}
		}
	} else {
		journals, scanned := scan(e.folderOf(b.ID), b.ID, e.o.Keys, func(r *record, _ place) { add(outcomeOf(r)) }, nil)
		if scanned != nil {
			return nil, scanned
		}
		journals.close()
	}
	slices.SortStableFunc(list, func(x, y Outcome) int {
		if x.IsFailed() != y.IsFailed() {
			if x.IsFailed() {
				return -1
			}
			return 1
		}
		return cmp.Compare(x.Line, y.Line)
	})
	return list, nil
}

// outcomeOf returns the outcome in a record of a journal.
func outcomeOf(r *record) Outcome {
	o := Outcome{Line: r.Line + 1, CustomID: r.CustomID, Status: r.Status, RequestID: r.RequestID}
	o.read(r.Body)
	return o
}

// read takes the model or the error from the body of an answer.
func (o *Outcome) read(body []byte) {
	var answer struct {
		Model string `json:"model"`
		Error struct {
			Code    jsontext.Value `json:"code"`
			Type    string         `json:"type"`
			Message string         `json:"message"`
		} `json:"error"`
	}
	if json.Unmarshal(body, &answer, jsontext.AllowDuplicateNames(true)) != nil {
		return // a backend may answer with anything
	}
	o.Model, o.Message = answer.Model, answer.Error.Message
	if json.Unmarshal(answer.Error.Code, &o.Code) != nil || o.Code == "" {
		o.Code = answer.Error.Type
	}
}

// readResults reads a file of results, if there is one.
func (e *Engine) readResults(ctx context.Context, b Batch, id string, add func(Outcome)) error {
	if id == "" {
		return nil
	}
	file, err := e.o.Files.Input(ctx, b.Owner.Scope(), id)
	if errors.Is(err, files.ErrNotFound) {
		return nil // its owner has deleted it
	}
	if err != nil {
		return err
	}
	content, err := e.o.Files.Open(file)
	if err != nil {
		return err
	}
	defer func() { _ = content.Close() }()
	lines := newLineReader(content.From(0), 0, int(max(content.Size(), 1)))
	for number := 1; ; number++ {
		text, _, err := lines.next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		add(resultOf(text, number))
	}
}

// resultOf reads a line of a file of results. Results in the form of Anthropic have no number.
func resultOf(text []byte, number int) Outcome {
	var r resultLine
	_ = json.Unmarshal(text, &r, jsontext.AllowDuplicateNames(true)) // the gateway wrote it
	o := Outcome{Line: number, CustomID: r.CustomID}
	if n, err := strconv.Atoi(r.ID[strings.LastIndexByte(r.ID, '_')+1:]); err == nil {
		o.Line = n
	}
	switch {
	case r.OpenAI != nil && r.OpenAI.Response != nil:
		o.Status, o.RequestID = r.OpenAI.Response.Status, r.OpenAI.Response.RequestID
		o.read(r.OpenAI.Response.Body)
	case r.OpenAI != nil && r.OpenAI.Error != nil:
		o.Code, o.Message = r.OpenAI.Error.Code, r.OpenAI.Error.Message
	case r.Result != nil && r.Result.Type == "succeeded":
		o.Status = http.StatusOK
		o.read(r.Result.Message)
	case r.Result != nil:
		o.Code = r.Result.Type
		if len(r.Result.Error) > 0 {
			o.read(r.Result.Error)
		}
	}
	return o
}
