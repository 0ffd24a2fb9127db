package adapter

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/patchbay-ai/patchbay/internal/jsonscan"
	"github.com/patchbay-ai/patchbay/internal/schema"
)

// openAITranscription passes recordings on and gives the transcript the form
// that was asked for.
type openAITranscription struct{}

// Call passes the form on.
func (openAITranscription) Call(req *schema.Request, to *Target, call *Call) error {
	passForm(req, to, call)
	return nil
}

// Reply passes the transcript on: as JSON, or as plain text for the formats
// that are text. Backends that answer in the other of the two are corrected.
func (openAITranscription) Reply(req *schema.Request, answer Answer, reply *Reply) error {
	format := req.TranscriptFormat()
	doc := &reply.doc
	doc.AllowDuplicateKeys = true
	isJSON := doc.Parse(answer.Body) == nil && doc.Root().Kind() == jsonscan.Object
	if isJSON {
		if err := complaint(doc.Root()); err != nil {
			return err
		}
	}
	wantsJSON := strings.HasSuffix(format, "json")
	switch {
	case wantsJSON && isJSON:
		if doc.Root().Get("text").Kind() != jsonscan.String {
			return fmt.Errorf("%w: no text", ErrInvalid)
		}
		reply.Usage = schema.ReadUsage(doc.Root().Get("usage"))
		reply.Segments = append(reply.Segments[:0], answer.Body)
	case !utf8.Valid(answer.Body) || strings.Contains(answer.ContentType, "html") && looksLikeHTML(answer.Body):
		return fmt.Errorf("%w: no text", ErrInvalid)
	case wantsJSON && format == "json":
		reply.Segments = append(reply.Segments[:0], []byte(`{"text":`), quote(string(answer.Body)), []byte("}"))
	case wantsJSON:
		return fmt.Errorf("%w: no JSON", ErrInvalid)
	default:
		text := answer.Body
		if isJSON && format == "text" && doc.Root().Get("text").Kind() == jsonscan.String {
			text = doc.Root().Get("text").Text()
		}
		reply.ContentType = "text/plain; charset=utf-8"
		reply.Segments = append(reply.Segments[:0], text)
	}
	return nil
}

// looksLikeHTML tells a page from a transcript that was labelled as one.
func looksLikeHTML(body []byte) bool {
	start := strings.ToLower(strings.TrimSpace(string(body[:min(len(body), 64)])))
	return strings.HasPrefix(start, "<!doctype") || strings.HasPrefix(start, "<html")
}
