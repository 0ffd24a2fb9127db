package batches

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/patchbay-ai/patchbay/internal/plain/say"
	"github.com/patchbay-ai/patchbay/internal/request/jsonwrite"
	"github.com/patchbay-ai/patchbay/internal/store/documents"
	"github.com/patchbay-ai/patchbay/internal/wings/batches/files"
)

// finish makes files of the answers and ends the batch.
func (j *job) finish() error {
	if isHeld, err := j.isHeldElsewhere(); err != nil || isHeld {
		if err == nil {
			err = errTaken
		}
		return err
	}
	return j.engine.withLease(j.ctx, j.id, finalName, func(ctx context.Context, version int64) error {
		now, err := j.engine.get(ctx, j.id)
		if err != nil {
			return err
		}
		if now.State.IsEnd() { // another gateway was first, and has cleaned up before this lease was made
			j.see(now)
			return j.engine.clean(context.WithoutCancel(ctx), j.id)
		}
		results, err := j.assemble(ctx, now, version)
		if err != nil {
			return err
		}
		if err := j.end(results); err != nil {
			results.remove(context.WithoutCancel(ctx), j.engine.o.Files)
			return err
		}
		return j.engine.clean(context.WithoutCancel(ctx), j.id)
	})
}

// isHeldElsewhere reports whether another gateway still runs lines of the batch.
func (j *job) isHeldElsewhere() (bool, error) {
	leases, err := j.engine.leasesOf(j.ctx, j.id)
	for name, seen := range leases {
		if seen.isHeld && name != finalName && name != checkName {
			return true, nil
		}
	}
	return false, err
}

// results are the files that a batch ends with.
type results struct {
	output, errors *files.File
	counts         Counts
	state          State
}

func (r *results) remove(ctx context.Context, store *files.Store) {
	for _, file := range []*files.File{r.output, r.errors} {
		if file != nil {
			_ = store.Delete(ctx, *file) // it expires otherwise
		}
	}
}

// end notes the end of the batch. It fails if the batch has changed meanwhile.
func (j *job) end(r results) error {
	return j.store(func(b *Batch) bool {
		if b.State.IsEnd() {
			return false
		}
		b.State, b.Ended, b.Counts = r.state, time.Now().UTC(), r.counts
		if b.Finalizing.IsZero() && r.state == Completed {
			b.Finalizing = b.Ended
		}
		if r.output != nil {
			b.Output = r.output.ID
		}
		if r.errors != nil {
			b.Errors = r.errors.ID
		}
		return true
	})
}

// endOf returns the final state of a batch that ends now.
func endOf(b Batch) State {
	switch b.State {
	case Cancelling:
		return Cancelled
	case Finalizing:
		return Completed
	}
	return Expired
}

// lostAfter is how long after its time a batch waits for unreadable answers to become
// readable, such as answers that an earlier master key has encrypted.
const lostAfter = time.Hour

// assemble writes the answers in the order of the lines. The number tells apart the files
// of several gateways, after one of them had lost its lease.
func (j *job) assemble(ctx context.Context, b Batch, number int64) (results, error) {
	r := results{state: endOf(b)}
	leave, err := j.engine.ahead.enterHeavy(ctx)
	if err != nil {
		return r, err
	}
	defer leave()
	places := make([]place, b.Lines)
	has := make([]bool, b.Lines)
	journals, err := scan(j.engine.folderOf(j.id), j.id, j.engine.o.Keys, func(found *record, p place) {
		if found.Line < 0 || found.Line >= b.Lines {
			return
		}
		counts := found.counts()
		if has[found.Line] {
			counts.Done, counts.Failed = 0, 0
		} else {
			has[found.Line], places[found.Line] = true, p
		}
		r.counts = r.counts.plus(counts)
	}, func(err error) bool {
		isLost := time.Since(b.Expires) > lostAfter
		if isLost {
			j.engine.tell(err, "reading answers, which are passed over")
		}
		return isLost
	})
	if err != nil {
		return r, err
	}
	defer journals.close()
	if lost := slices.Index(has, false); lost >= 0 && r.state == Completed {
		if time.Now().Before(b.Expires) {
			return r, fmt.Errorf("line %d has ended, and its answer is not there", lost+1)
		}
		r.state = Expired // nobody waits for it any longer
	}
	j.releaseRoom() // for the results
	w := &resultWriter{job: j, batch: b, number: number}
	defer w.abort()
	err = w.writeAll(ctx, r.state, has, func(line int) (*record, error) { return places[line].read() })
	if err == nil {
		r.output, r.errors, err = w.commit(ctx)
	}
	return r, err
}

// resultWriter writes the results of a batch in its form.
type resultWriter struct {
	job            *job
	batch          Batch
	number         int64
	output, errors *files.Upload
}

func (w *resultWriter) writeAll(ctx context.Context, end State, has []bool,
	read func(line int) (*record, error)) error {
	unread := unanswered{job: w.job, batch: w.batch}
	defer unread.close()
	for line := range has {
		if line%256 == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		if has[line] {
			r, err := read(line)
			if err == nil {
				err = w.write(r, "")
			}
			if err != nil {
				return err
			}
			continue
		}
		if end == Cancelled && w.batch.Form == OpenAI && len(w.batch.Faults) == 0 {
			continue // its owner wants only finished lines
		}
		id, err := unread.customID(ctx, line)
		if err != nil && ctx.Err() == nil && !errors.Is(err, documents.ErrUnavailable) {
			unread.giveUp(err)
			continue
		}
		if err == nil {
			err = w.write(&record{Line: line, CustomID: id}, end)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// unanswered finds the names of lines that have no answer.
type unanswered struct {
	job     *job
	batch   Batch
	content *files.Content // nil before the first one is asked for
	lines   *lineReader
	read    int
	lost    error // why no further line can be read; nil while they can
}

// giveUp notes that the lines cannot be read any more, such as the lines of a file that was
// removed from the disk: the batch ends without the names of the lines that did not run.
func (u *unanswered) giveUp(err error) {
	if u.lost == nil {
		u.lost = err
		u.job.engine.tell(err, "reading which lines of "+u.job.id+" did not run")
	}
}

func (u *unanswered) close() {
	if u.content != nil {
		_ = u.content.Close()
	}
}

// customID returns the name of a line. Lines are asked for in their order.
func (u *unanswered) customID(ctx context.Context, number int) (string, error) {
	if u.lost != nil {
		return "", u.lost
	}
	if u.content == nil {
		content, err := u.job.open(ctx, u.batch)
		if err != nil {
			return "", err
		}
		u.content = content
		u.lines = newLineReader(content.From(0), 0, int(u.job.engine.o.LongestLine()))
	}
	for {
		text, _, err := u.lines.next()
		if err != nil {
			return "", errors.Join(err, io.ErrUnexpectedEOF)
		}
		u.read++
		if u.read == number+1 {
			found, fault := parseLine(text, u.batch.Endpoint)
			if fault != nil {
				return "", errors.New(fault.Said.String())
			}
			return found.customID, nil
		}
	}
}

// write writes the result of a line. The end of the batch counts for a line without one.
func (w *resultWriter) write(r *record, end State) error {
	to, line := &w.output, resultLine{CustomID: r.CustomID}
	if w.batch.Form == Anthropic {
		line.Result = w.messageResult(r, end)
	} else {
		line.ID = fmt.Sprintf("batch_req_%s_%d", w.batch.ID, r.Line+1)
		line.OpenAI = w.openAIResult(r, end)
		if end != "" || !r.isAnswer() {
			to = &w.errors
		}
	}
	text, err := json.Marshal(line, jsontext.AllowDuplicateNames(true))
	if err != nil {
		return err
	}
	if *to == nil {
		upload, err := w.create(to == &w.errors)
		if err != nil {
			return err
		}
		*to = upload
	}
	_, err = (*to).Write(append(text, '\n'))
	return err
}

func (w *resultWriter) create(isErrors bool) (*files.Upload, error) {
	name := "output"
	if isErrors {
		name = "errors"
	}
	created := lastLineOf(w.batch)
	upload, err := w.job.engine.o.Files.CreateOwn(files.File{
		ID: files.ResultID(created, w.batch.ID, name, w.number), Created: created,
		Expires: time.Now().UTC().Add(w.job.engine.o.Retention()),
		Owner:   w.batch.Owner.Plain(), Filename: w.batch.ID + "_" +
			name + ".jsonl", Purpose: "batch_output",
		IsHidden: w.batch.Form == Anthropic,
	})
	if err == nil && w.batch.KeepResults > 0 {
		upload.KeepFor(w.batch.KeepResults.Std())
	}
	return upload, err
}

// lastLineOf returns when a batch was to run no further line. Results that are made again
// after a crash have the same time, and so the same id.
func lastLineOf(b Batch) time.Time {
	at := b.Expires
	if !b.Finalizing.IsZero() {
		at = b.Finalizing
	} else if !b.Cancelling.IsZero() {
		at = b.Cancelling
	}
	return at.UTC().Truncate(time.Second)
}

// resultLine is a line of a file of results, in the form of OpenAI or of Anthropic.
type resultLine struct {
	ID       string         `json:"id,omitzero"`
	CustomID string         `json:"custom_id"`
	OpenAI   *openAIResult  `json:",embed"`
	Result   *messageResult `json:"result,omitzero"`
}

type openAIResult struct {
	Response *openAIResponse `json:"response"`
	Error    *openAIFault    `json:"error"`
}

type openAIResponse struct {
	Status    int            `json:"status_code"`
	RequestID string         `json:"request_id"`
	Body      jsontext.Value `json:"body"`
}

type openAIFault struct {
	Code    string `json:"code"`
	Message string `json:"message"`
}

type messageResult struct {
	Type    string         `json:"type"`
	Message jsontext.Value `json:"message,omitzero"`
	Error   jsontext.Value `json:"error,omitzero"`
}

func (w *resultWriter) openAIResult(r *record, end State) *openAIResult {
	if end != "" {
		why := w.why(end)
		return &openAIResult{Error: &openAIFault{why.Code, why.Said.String()}}
	}
	return &openAIResult{Response: &openAIResponse{r.Status, r.RequestID, r.Body}}
}

// why returns why a line did not run in a batch that ended so.
func (w *resultWriter) why(end State) Fault {
	if end == Cancelled && len(w.batch.Faults) > 0 {
		return w.batch.Faults[0]
	}
	return NewFault("batch_expired", "", say.New("batch.expired"))
}

func (w *resultWriter) messageResult(r *record, end State) *messageResult {
	switch {
	case end == Cancelled && len(w.batch.Faults) > 0:
		message := jsonwrite.AppendText(nil, w.why(end).Said.String())
		return &messageResult{Type: "errored", Error: slices.Concat(
			[]byte(`{"type":"error","error":{"type":"api_error","message":`), message, []byte("}}"))}
	case end == Cancelled:
		return &messageResult{Type: "canceled"}
	case end != "":
		return &messageResult{Type: "expired"}
	case r.isAnswer():
		return &messageResult{Type: "succeeded", Message: r.Body}
	}
	return &messageResult{Type: "errored", Error: r.Body}
}

// commit makes files of the written results; nil where there are none.
func (w *resultWriter) commit(ctx context.Context) (output, faults *files.File, err error) {
	for _, part := range []struct {
		from *files.Upload
		to   **files.File
	}{{w.output, &output}, {w.errors, &faults}} {
		if part.from == nil {
			continue
		}
		file, err := part.from.Commit(ctx)
		if err != nil {
			return output, faults, err
		}
		*part.to = &file
	}
	return output, faults, nil
}

func (w *resultWriter) abort() {
	for _, upload := range []*files.Upload{w.output, w.errors} {
		if upload != nil {
			upload.Abort()
		}
	}
}
