package genai

import (
	"bytes"
	"errors"
	"io"

	"github.com/patchbay-ai/patchbay/internal/dialect"
	"github.com/patchbay-ai/patchbay/internal/dialect/gemini"
	"github.com/patchbay-ai/patchbay/internal/dialect/wire"
	"github.com/patchbay-ai/patchbay/internal/request/accountids"
	"github.com/patchbay-ai/patchbay/internal/request/jsonscan"
	"github.com/patchbay-ai/patchbay/internal/request/jsonwrite"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
)

// Pass passes requests to backends that speak the API themselves, and their answers to the
// client. Only the name of the model is changed.
var Pass = &dialect.Adapter{
	Account: accountids.Gemini, Call: callPass, Reply: replyPass, Events: eventsPass, Split: splitPass,
	Decode: gemini.Chat.Decode, DecodeStream: gemini.Chat.DecodeStream,
}

// PassCount and PassEmbedding do the same for counts of tokens and for embeddings.
var (
	PassCount     = &dialect.Adapter{Account: accountids.Gemini, Call: callPass, Reply: replyCount}
	PassEmbedding = &dialect.Adapter{Call: callPass, Reply: replyPassEmbedding}
)

// callPass passes the client's body on. It asks for a stream as events, whatever form the
// client gets. Nothing of the client's query is passed on.
func callPass(req *schema.Request, to *dialect.Target, call *wire.Call) error {
	model := gemini.ModelOf(req, to)
	to.Begin(call, gemini.PathOf(to.Path, model, req.Stream), "application/json", dialect.Accept(req))
	call.Edits = renamed(call.Edits[:0], req.Body.Root(), jsonwrite.AppendText(nil, "models/"+model))
	call.Body = req.Body.Splice(call.Body[:0], call.Edits)
	return nil
}

// renamed gives the members of a body that name the model the backend's name.
func renamed(edits []jsonscan.Edit, root jsonscan.Value, name []byte) []jsonscan.Edit {
	named := func(v jsonscan.Value) {
		if model := v.Get("model"); model.Given() {
			edits = append(edits, model.Replace(name))
		}
	}
	named(root)
	named(member(root, "generateContentRequest", "generate_content_request"))
	for r := range root.Get("requests").All() {
		named(r)
	}
	return edits
}

// replyPass passes an answer on under the model name that the client used.
func replyPass(req *schema.Request, answer dialect.Answer, reply *dialect.Reply) error {
	root, err := reply.Scan(answer.Body)
	if err != nil {
		return err
	}
	if !root.Get("candidates").Given() && !root.Get("promptFeedback").Given() {
		return dialect.Invalid("no candidates")
	}
	reply.Usage = gemini.ReadUsage(root.Get("usageMetadata")).Tokens
	reply.Splice(renameVersion(reply.Edits[:0], root, req.ModelJSON()))
	return nil
}

func renameVersion(edits []jsonscan.Edit, root jsonscan.Value, name []byte) []jsonscan.Edit {
	if version := root.Get("modelVersion"); version.Given() && !bytes.Equal(version.Raw(), name) {
		return append(edits, version.Replace(name))
	}
	return edits
}

// replyCount passes a count on.
func replyCount(_ *schema.Request, answer dialect.Answer, reply *dialect.Reply) error {
	if _, _, err := reply.ReadCount(answer, "totalTokens"); err != nil {
		return err
	}
	reply.Segments = append(reply.Segments[:0], answer.Body)
	return nil
}

// replyPassEmbedding passes vectors on.
func replyPassEmbedding(req *schema.Request, answer dialect.Answer, reply *dialect.Reply) error {
	root, err := reply.Scan(answer.Body)
	if err != nil {
		return err
	}
	name := "embedding"
	if req.Door == schema.DoorGeminiBatchEmbed {
		name = "embeddings"
	}
	if !root.Get(name).Given() {
		return dialect.Invalid("no embeddings")
	}
	reply.Usage = gemini.ReadUsage(root.Get("usageMetadata")).Tokens
	reply.Segments = append(reply.Segments[:0], answer.Body)
	return nil
}

func splitPass(req *schema.Request, reply *dialect.Reply) (*dialect.Stream, error) {
	return dialect.SplitPassed(req, reply, gemini.Chat.Decode, streamEvents)
}

// eventsPass passes the events of a stream on.
func eventsPass(req *schema.Request, body io.Reader) *dialect.Stream {
	e := &passedEvents{wishes: readWishes(req)}
	e.SSE, e.Model = dialect.NewSSE(body), e.model
	return e.stream(e, e.IsComplete)
}

// passedEvents passes events on. It reads the facts that the gateway must know.
type passedEvents struct {
	dialect.Passed
	wishes
	begun bool
}

// CanResume implements dialect.Resumer.
func (e *passedEvents) CanResume() bool { return e.begun && !e.IsComplete() }

// Resume implements dialect.Resumer.
func (e *passedEvents) Resume(_ *schema.Request, from dialect.Deltas) {
	e.Onward = &clientEvents{Written: dialect.Written{From: from}, answerWriter: answerWriter{wishes: e.wishes}}
}

// Next returns the next event.
func (e *passedEvents) Next() ([]byte, error) {
	if e.Onward != nil {
		return e.Onward.Next()
	}
	if e.Complete {
		return nil, io.EOF
	}
	out, err := e.Read(e.take)
	if errors.Is(err, io.EOF) && e.isArray {
		e.Complete = true
		return e.framing.end(e.Out), nil
	}
	e.begun = e.begun || err == nil
	return out, err
}

// take reads one event and makes it the output.
func (e *passedEvents) take(event dialect.Event) (bool, error) {
	root, ok, err := e.Scan(event)
	if !ok || err != nil {
		return false, err
	}
	if usage := gemini.ReadUsage(root.Get("usageMetadata")); usage.Known {
		e.Tokens = usage.Tokens
	}
	e.Finished = e.Finished || root.Get("promptFeedback").Get("blockReason").Given()
	for c := range root.Get("candidates").All() {
		e.Finished = e.Finished || dialect.IsFinishReason(c.Get("finishReason"))
		e.Content = e.Content || hasContent(c.Get("content").Raw())
	}
	e.Append(renameVersion(e.Edits[:0], root, e.Model), e.append)
	return true, nil
}

// hasContent reports whether a content has something that the model made.
func hasContent(content []byte) bool {
	for _, name := range [...]string{`"text"`, `"functionCall"`, `"inlineData"`, `"executableCode"`} {
		if bytes.Contains(content, []byte(name)) {
			return true
		}
	}
	return false
}
