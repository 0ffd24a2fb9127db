package openai

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/patchbay-ai/patchbay/internal/dialect"
	"github.com/patchbay-ai/patchbay/internal/dialect/wire"
	"github.com/patchbay-ai/patchbay/internal/request/jsonscan"
	"github.com/patchbay-ai/patchbay/internal/request/jsonwrite"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
)

// Transcription passes recordings on and gives the transcript the form
// that was asked for.
var Transcription = &dialect.Adapter{
	Call: callTranscription, Reply: replyTranscription,
	AsksForEvents: asksForEventsTranscription, PassEvents: newPassedEvents, Split: splitTranscription,
}

// callTranscription passes the form on.
func callTranscription(req *schema.Request, to *dialect.Target, call *wire.Call) error {
	passForm(req, to, call)
	return nil
}

// WhisperTranslation asks whisper.cpp, which has one address for transcripts in any
// language, for a transcript in English.
var WhisperTranslation = &dialect.Adapter{
	Call: callWhisperTranslation, Reply: replyTranscription,
	AsksForEvents: asksForEventsTranscription, PassEvents: newPassedEvents, Split: splitTranscription,
}

// callWhisperTranslation passes the form on with the field that asks for English.
func callWhisperTranslation(req *schema.Request, to *dialect.Target, call *wire.Call) error {
	if _, given := req.Form.Value("translate"); given {
		return schema.BadField("translate", "value.translates")
	}
	passForm(req, to, call, schema.Part{Name: "translate", Value: "true"})
	return nil
}

// replyTranscription passes the transcript on: as JSON, or as plain text for the formats
// that are text. Backends that answer in the other of the two are corrected.
func replyTranscription(req *schema.Request, answer dialect.Answer, reply *dialect.Reply) error {
	format := req.TranscriptFormat()
	doc := &reply.Doc
	doc.AllowDuplicateKeys = true
	var root jsonscan.Value
	if doc.Parse(answer.Body) == nil {
		root = doc.Root()
	}
	if root.Kind() == jsonscan.Object {
		return transcriptObject(req, root, format, reply)
	}
	text := answer.Body
	switch labelled := strings.Contains(answer.ContentType, "json"); {
	case labelled && root.Kind() == jsonscan.String:
		text = root.Text()
	case labelled, !utf8.Valid(text), strings.Contains(answer.ContentType, "html") && looksLikeHTML(text):
		return dialect.Invalid("no text")
	}
	switch {
	case format == "json":
		reply.Segments = append(reply.Segments[:0], []byte(`{"text":`), jsonwrite.AppendText(nil, text), []byte("}"))
	case strings.HasSuffix(format, "json"):
		return fmt.Errorf("%w: no JSON", dialect.ErrFormat)
	default:
		reply.ContentType = plainText
		reply.Segments = append(reply.Segments[:0], text)
	}
	return nil
}

const plainText = "text/plain; charset=utf-8"

// transcriptObject passes on a transcript that came as an object.
func transcriptObject(req *schema.Request, root jsonscan.Value, format string, reply *dialect.Reply) error {
	if err := dialect.FailureIn(root); err != nil {
		return err
	}
	text := root.Get("text")
	switch {
	case text.Kind() != jsonscan.String:
		return dialect.Invalid("no text")
	case strings.HasSuffix(format, "json"):
		reply.Usage = schema.ReadUsage(root.Get("usage"))
		reply.Splice(renameOnly(reply.Edits[:0], root, req))
	case format == "text":
		reply.Usage = schema.ReadUsage(root.Get("usage"))
		reply.ContentType = plainText
		reply.Segments = append(reply.Segments[:0], text.Text())
	default:
		return fmt.Errorf("%w: JSON instead of %s", dialect.ErrFormat, format)
	}
	return nil
}

// asksForEventsTranscription reports whether the client wants the transcript as events.
func asksForEventsTranscription(req *schema.Request) bool { return formAsksForEvents(req.Form) }

// splitTranscription makes a stream of a whole transcript: all of the text in one piece, then
// the transcript with whatever else is known of it.
func splitTranscription(req *schema.Request, reply *dialect.Reply) (*dialect.Stream, error) {
	if !asksForEventsTranscription(req) {
		return nil, nil
	}
	body := slices.Concat(reply.Segments...)
	text, members := body, []byte(nil)
	if reply.ContentType == "" { // JSON
		var doc jsonscan.Document
		if _, err := dialect.Parse(&doc, body); err != nil {
			return nil, err
		}
		text, members = doc.Root().TextOf("text"), dialect.CompactObject(doc.Root())
	} else {
		members = slices.Concat([]byte(`{"text":`), jsonwrite.AppendText(nil, text), []byte("}"))
	}
	reply.ContentType = ""
	return dialect.StoredEvents(reply.Usage,
		slices.Concat([]byte(`{"type":"transcript.text.delta","delta":`), jsonwrite.AppendText(nil, text), []byte("}")),
		slices.Concat([]byte(`{"type":"transcript.text.done",`), members[1:]),
	), nil
}

// looksLikeHTML tells a page from a transcript that was labelled as one.
func looksLikeHTML(body []byte) bool {
	start := strings.ToLower(strings.TrimSpace(string(body[:min(len(body), 64)])))
	return strings.HasPrefix(start, "<!doctype") || strings.HasPrefix(start, "<html")
}
