package managedbatches

import (
	"errors"
	"io"
	"mime"
	"net/http"
	"strconv"

	"github.com/patchbay-ai/patchbay/internal/access"
	"github.com/patchbay-ai/patchbay/internal/plain/say"
	"github.com/patchbay-ai/patchbay/internal/serve/web"
	"github.com/patchbay-ai/patchbay/internal/wings/batches"
	"github.com/patchbay-ai/patchbay/internal/wings/batches/files"
)

// inside returns the operations that look into one batch.
func (b *work) inside() []web.Route {
	return []web.Route{
		{
			Pattern: "GET /api/batches/{id}", Does: web.Do(b.oneBatch),
			Summary: "One batch with its models and its files", Says: "The batch.",
			Errors: []int{http.StatusNotFound, http.StatusServiceUnavailable},
		},
		{
			Pattern: "GET /api/batches/{id}/lines",
			Does:    web.ListWith(b.listLines),
			Summary: "How the lines of a batch ended, without their texts, the failed ones first; ten thousand of each",
			Says:    "The lines that have ended.", Errors: []int{http.StatusNotFound, http.StatusServiceUnavailable},
		},
		{
			Pattern: "GET /api/files/{id}/content", Permission: access.ManageContents, Audited: true,
			Concerns: b.tenantOfFile,
			Handler:  b.fileContent, Summary: "The content of a file of any owner",
			Media: map[string]any{"application/octet-stream": ""}, Error: web.Fault{},
			Errors: []int{http.StatusNotFound, http.StatusServiceUnavailable},
		},
	}
}

// batchDetail is a batch with what a list has no room for.
type batchDetail struct {
	managedBatch

	Window     string   `json:"window,omitzero" doc:"The time that it may take, as its owner wrote it."`
	Models     []string `json:"models" doc:"The models of its lines that were served."`
	InputFile  string   `json:"inputFile"`
	OutputFile string   `json:"outputFile,omitzero" doc:"The answers, once it has ended."`
	ErrorFile  string   `json:"errorFile,omitzero" doc:"The errors, once it has ended."`
}

func (b *work) oneBatch(c *web.Call) (view batchDetail, err error) {
	p, err := b.found(c)
	if err != nil {
		return view, err
	}
	return batchDetail{
		managedBatch: viewOfBatch(p, c.Words()), Window: p.Window, Models: append([]string{}, p.Models...),
		InputFile: p.Input, OutputFile: p.Output, ErrorFile: p.Errors,
	}, nil
}

// found returns the batch that a request names.
func (b *work) found(c *web.Call) (p batches.Progress, err error) {
	id := c.PathValue("id")
	if b.engine == nil {
		return p, noBatch(id)
	}
	p, err = b.engine.Get(c.Context(), batches.AnyScope, id)
	return p, batchError(id, err)
}

// linesQuery asks for lines of a batch.
type linesQuery struct {
	web.PageQuery

	Failed bool `json:"failed" doc:"Only those without an answer."`
}

// batchLine is how a line ended.
type batchLine struct {
	Line      int            `json:"line" doc:"Among the requests of the file, from 1."`
	CustomID  string         `json:"customId"`
	Status    int            `json:"status" doc:"0 if it did not run."`
	RequestID string         `json:"requestId,omitzero"`
	Model     string         `json:"model,omitzero" doc:"The one that answered."`
	Code      string         `json:"code,omitzero"`
	Error     string         `json:"error,omitzero" doc:"Why it failed; VIEWER does not see words of backends."`
	Said      []say.Sentence `json:"said,omitzero" doc:"The error as codes and values."`
}

// mostLines is how many lines of each outcome are listed.
const mostLines = 10_000

func (b *work) listLines(c *web.Call, q *linesQuery) (views []batchLine, err error) {
	p, err := b.found(c)
	if err != nil {
		return nil, err
	}
	list, err := b.engine.Outcomes(c.Context(), p.Batch, mostLines)
	for _, o := range list {
		if q.Failed && !o.IsFailed() {
			continue
		}
		view := batchLine{Line: o.Line, CustomID: web.CutText(o.CustomID, 256), Status: o.Status,
			RequestID: o.RequestID, Model: web.CutText(o.Model, 256), Code: web.CutText(o.Code, 64)}
		if o.Message != "" {
			// The file has the words of the answer, which may be those of a backend.
			view.Error, view.Said = c.Words()(say.Plain(web.CutText(o.Message, 500)))
		}
		if o.IsFailed() && view.Error == "" {
			view.Error, view.Said = c.Words()(say.New("batch.line_failed", "status", o.Status, "code", view.Code))
		}
		views = append(views, view)
	}
	return views, storeError(err)
}

// fileContent answers with the content of a file.
func (b *work) fileContent(w http.ResponseWriter, r *http.Request) {
	id := r.PathValue("id")
	content, name, err := b.openFile(r, id)
	if errors.Is(err, files.ErrNotFound) {
		web.Refuse(w, http.StatusNotFound, say.New("manage.no_file", "file", web.Shorten(id)))
		return
	}
	if err != nil {
		b.core.Log.Error("a file cannot be read", "file", web.Shorten(id), "error", err)
		web.Refuse(w, http.StatusServiceUnavailable, say.New("batch.file_away"))
		return
	}
	defer func() { _ = content.Close() }()
	w.Header().Set("Content-Type", "application/octet-stream")
	w.Header().Set("Content-Disposition", mime.FormatMediaType("attachment", map[string]string{"filename": name}))
	w.Header().Set("Content-Length", strconv.FormatInt(content.Size(), 10))
	if _, err := io.Copy(w, content.From(0)); err != nil {
		panic(http.ErrAbortHandler) // neither looks complete
	}
}

// tenantOfFile is the web.Route.Concerns of reads of a file.
func (b *work) tenantOfFile(r *http.Request, _ any) string {
	file, _ := b.findFile(r, r.PathValue("id")) // an unknown file has no tenant
	return file.Owner.Tenant
}

func (b *work) findFile(r *http.Request, id string) (files.File, error) {
	if b.engine == nil {
		return files.File{}, files.ErrNotFound
	}
	return b.files.Find(r.Context(), files.AnyScope, id)
}

func (b *work) openFile(r *http.Request, id string) (*files.Content, string, error) {
	file, err := b.findFile(r, id)
	if err != nil {
		return nil, "", err
	}
	content, err := b.files.Open(file)
	return content, file.Filename, err
}
