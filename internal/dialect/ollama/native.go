package ollama

import (
	"bytes"
	"errors"
	"io"

	"github.com/patchbay-ai/patchbay/internal/dialect"
	"github.com/patchbay-ai/patchbay/internal/dialect/wire"
	"github.com/patchbay-ai/patchbay/internal/request/chat"
	"github.com/patchbay-ai/patchbay/internal/request/jsonscan"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
)

// Pass passes requests for chats and generated texts to backends that speak Ollama's API
// themselves, and their answers to the client. Only the name of the model is changed.
var Pass = &dialect.Adapter{
	Call: callPass, Continues: continuesPass, Reply: replyPass, Events: eventsPass, Split: splitPass,
	Decode: decode, DecodeStream: decodeStream,
}

// PassEmbedding does the same for embeddings.
var PassEmbedding = &dialect.Adapter{Call: callPass, Reply: replyPassEmbedding}

// callPass passes the client's body on.
func callPass(req *schema.Request, to *dialect.Target, call *wire.Call) error {
	accept := "application/json"
	if req.Stream {
		accept = typeLines
	}
	to.Begin(call, to.PathFor(req), "application/json", accept)
	edits := call.Edits[:0]
	switch model := req.Body.Root().Get("model"); {
	case to.ModelJSON != nil:
		edits = append(edits, model.Replace(to.ModelJSON))
	case req.PathModel != "":
		edits = append(edits, model.Replace(req.ModelJSON()))
	}
	call.Edits = dialect.ContinueMessages(edits, req, "options", "num_predict")
	call.Body = req.Body.Splice(call.Body[:0], call.Edits)
	return nil
}

// continuesPass reports whether the model goes on with the beginning of its answer: a chat has
// it as its last message, and a prompt that a template surrounds has no place for it.
func continuesPass(req *schema.Request, _ *dialect.Target) bool {
	return req.Door == schema.DoorOllamaChat
}

// replyPass passes an answer on under the model name that the client used.
func replyPass(req *schema.Request, answer dialect.Answer, reply *dialect.Reply) error {
	line, err := scanLine(&reply.Doc, bytes.TrimPrefix(answer.Body, []byte(jsonscan.ByteOrderMark)))
	if err != nil {
		return err
	}
	if !line.done {
		return dialect.ErrTruncated
	}
	if err := line.checkSaid(); err != nil {
		return err
	}
	reply.Usage = line.usage().Tokens
	reply.Pass(req.ModelJSON())
	return nil
}

// checkSaid returns an error for a whole answer with nothing in it.
func (l *answerLine) checkSaid() error {
	var whole chat.Answer
	return (&answerReader{}).add(l, &whole)
}

// replyPassEmbedding passes vectors on under the model name that the client used. The only
// vector of /api/embeddings comes without a name.
func replyPassEmbedding(req *schema.Request, answer dialect.Answer, reply *dialect.Reply) error {
	root, err := reply.Scan(answer.Body)
	if err != nil {
		return err
	}
	vectors := root.Get("embeddings")
	if req.Door == schema.DoorOllamaEmbeddings {
		vectors = root.Get("embedding")
	}
	if vectors.Kind() != jsonscan.Array {
		return dialect.Invalid("no embeddings")
	}
	if n, ok := dialect.TokenCount(root.Get("prompt_eval_count")); ok && n > 0 {
		reply.Usage = schema.Usage{Prompt: n, Total: n, Known: true}
	}
	reply.Pass(req.ModelJSON())
	return nil
}

func splitPass(req *schema.Request, reply *dialect.Reply) (*dialect.Stream, error) {
	return dialect.SplitPassed(req, reply, decode, eventsLines)
}

// eventsPass passes the lines of a stream on.
func eventsPass(req *schema.Request, body io.Reader) *dialect.Stream {
	e := &passedLines{lines: dialect.NewNDJSON(body), model: bytes.Clone(req.ModelJSON()), writer: newLineWriter(req)}
	return lineStream(e, e.isComplete)
}

// passedLines passes lines on. It reads the facts that the gateway must know.
type passedLines struct {
	answerReader
	lines  *dialect.NDJSON
	doc    jsonscan.Document
	model  []byte // the client's name of the model, as JSON
	writer lineWriter

	out      []byte
	edits    []jsonscan.Edit
	segments [][]byte
	delta    chat.Delta

	usage    chat.Usage
	begun    bool // a line was passed on
	complete bool
	failed   error
	onward   *clientLines // writes the rest of the answer from another backend; nil while there is none

	hasContent bool
	sent       *chat.Transcript // nil for none
}

// Usage returns the report of the last line.
func (e *passedLines) Usage() schema.Usage {
	if e.onward != nil {
		return e.onward.Usage()
	}
	return e.usage.Tokens
}

// HasContent reports whether a line had content.
func (e *passedLines) HasContent() bool {
	return e.hasContent || e.onward != nil && e.onward.Content
}

func (e *passedLines) isComplete() bool {
	return e.complete || e.onward != nil && e.onward.Complete
}

// Record makes a transcript of the texts.
func (e *passedLines) Record(to *chat.Transcript) { e.sent = to }

// CanResume implements dialect.Resumer.
func (e *passedLines) CanResume() bool { return e.begun && !e.isComplete() }

// Resume implements dialect.Resumer.
func (e *passedLines) Resume(_ *schema.Request, from dialect.Deltas) {
	e.onward = &clientLines{Written: dialect.Written{From: from}, lineWriter: e.writer, begun: true}
}

// Next returns the next line.
func (e *passedLines) Next() ([]byte, error) {
	switch {
	case e.onward != nil:
		return e.onward.Next()
	case e.complete:
		return nil, io.EOF
	case e.failed != nil:
		return nil, e.failed
	}
	if e.failed = e.pass(); e.failed != nil {
		return nil, e.failed
	}
	e.begun = true
	return e.out, nil
}

// pass reads a line and makes it the output.
func (e *passedLines) pass() error {
	e.out = dialect.Reuse(e.out)
	e.delta.Reset()
	dialect.DropLarge(&e.doc, &e.inner)
	e.logprobs.Begin(dialect.Reuse(e.logprobs.Out), nil)
	data, err := e.lines.Next()
	if errors.Is(err, io.EOF) {
		return dialect.ErrTruncated
	}
	if err != nil {
		return err
	}
	line, err := scanLine(&e.doc, data)
	if e.lines.Open() && errors.Is(err, dialect.ErrInvalid) {
		return dialect.ErrTruncated // the line was cut off
	}
	if err == nil {
		err = e.add(&line, &e.delta)
	}
	if err != nil {
		return err
	}
	if line.done {
		e.usage = e.delta.Usage
	}
	e.complete = line.done
	e.hasContent = e.hasContent || e.delta.HasContent()
	if e.sent != nil {
		e.sent.Note(&e.delta)
	}
	e.edits = dialect.RenameModel(e.edits[:0], e.doc.Root(), e.model)
	e.segments = e.doc.Splice(e.segments[:0], e.edits)
	for _, segment := range e.segments {
		e.out = append(e.out, segment...)
	}
	clear(e.segments)
	e.out = append(e.out, '\n')
	return nil
}
