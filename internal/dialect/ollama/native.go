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
	e := &passedLines{lines: dialect.NewNDJSON(body), writer: newLineWriter(req)}
	e.Model = e.writer.model
	return lineStream(e, e.IsComplete)
}

// passedLines passes lines on. It reads the facts that the gateway must know.
type passedLines struct {
	dialect.Passed
	answerReader
	lines  *dialect.NDJSON
	writer lineWriter
	delta  chat.Delta
	begun  bool // a line was passed on
	failed error
	sent   *chat.Transcript // nil for none
}

// Record makes a transcript of the texts.
func (e *passedLines) Record(to *chat.Transcript) { e.sent = to }

// CanResume implements dialect.Resumer.
func (e *passedLines) CanResume() bool { return e.begun && !e.IsComplete() }

// Resume implements dialect.Resumer.
func (e *passedLines) Resume(_ *schema.Request, from dialect.Deltas) {
	e.Onward = &clientLines{Written: dialect.Written{From: from}, lineWriter: e.writer, begun: true}
}

// Next returns the next line.
func (e *passedLines) Next() ([]byte, error) {
	switch {
	case e.Onward != nil:
		return e.Onward.Next()
	case e.Complete:
		return nil, io.EOF
	case e.failed != nil:
		return nil, e.failed
	}
	if e.failed = e.pass(); e.failed != nil {
		return nil, e.failed
	}
	e.begun = true
	return e.Out, nil
}

// pass reads a line and makes it the output.
func (e *passedLines) pass() error {
	e.Out = dialect.Reuse(e.Out)
	e.delta.Reset()
	dialect.DropLarge(&e.Doc, &e.inner)
	e.logprobs.Begin(dialect.Reuse(e.logprobs.Out), nil)
	data, err := e.lines.Next()
	if errors.Is(err, io.EOF) {
		return dialect.ErrTruncated
	}
	if err != nil {
		return err
	}
	line, err := scanLine(&e.Doc, data)
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
		e.Tokens = e.delta.Usage.Tokens
	}
	e.Complete = line.done
	e.Content = e.Content || e.delta.HasContent()
	if e.sent != nil {
		e.sent.Note(&e.delta)
	}
	e.Append(dialect.RenameModel(e.Edits[:0], e.Doc.Root(), e.Model), appendLine)
	return nil
}

// appendLine appends a line.
func appendLine(dst []byte, parts ...[]byte) []byte {
	for _, part := range parts {
		dst = append(dst, part...)
	}
	return append(dst, '\n')
}
