package openai

import (
	"bytes"
	"crypto/rand"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/patchbay-ai/patchbay/internal/dialect"
	"github.com/patchbay-ai/patchbay/internal/dialect/wire"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
)

// passForm describes a call that sends a form on: the parts as they came and in their
// order, with the backend's name of the model, and the added parts.
func passForm(req *schema.Request, to *dialect.Target, call *wire.Call, added ...schema.Part) {
	boundary := "patchbay-" + rand.Text()
	to.Begin(call, to.PathFor(req), "multipart/form-data; boundary="+boundary, "*/*")
	var pieces []*schema.File
	var text []byte
	for _, part := range slices.Concat(req.Form.Parts, added) {
		text = append(text, "--"+boundary+"\r\nContent-Disposition: form-data; name=\""+escapeQuotes(part.Name)+"\""...)
		if part.File == nil {
			value := part.Value
			if part.Name == "model" && to.Model != "" {
				value = to.Model
			}
			text = append(text, "\r\n\r\n"+value+"\r\n"...)
			continue
		}
		text = append(text, "; filename=\""+escapeQuotes(nameOf(&part))+"\"\r\nContent-Type: "+part.File.ContentType+
			"\r\n\r\n"...)
		pieces = append(pieces, inMemory(text), part.File)
		text = []byte("\r\n")
	}
	text = append(text, "--"+boundary+"--\r\n"...)
	pieces = append(pieces, inMemory(text))
	upload := &wire.Upload{Open: func() io.Reader {
		readers := make([]io.Reader, len(pieces))
		for i, piece := range pieces {
			readers[i] = piece.Open()
		}
		return io.MultiReader(readers...)
	}}
	for _, piece := range pieces {
		upload.Length += piece.Size
	}
	call.Body, call.Upload = call.Body[:0], upload
}

// inMemory returns a text as a file.
func inMemory(text []byte) *schema.File {
	return &schema.File{Size: int64(len(text)), Open: func() io.Reader { return bytes.NewReader(text) }}
}

// formAsksForEvents reports whether a form asks for the answer as events.
func formAsksForEvents(form *schema.Form) bool {
	value, _ := form.Value("stream")
	asked, err := strconv.ParseBool(value)
	return asked && err == nil
}

// nameOf returns the name of a file. One that has none gets one: backends tell
// files from fields by it.
func nameOf(part *schema.Part) string {
	if part.File.Filename != "" {
		return part.File.Filename
	}
	return strings.TrimSuffix(part.Name, "[]")
}

// escapeQuotes makes a name fit for a quoted parameter of a part's head, as
// browsers do. Line breaks never get here: heads of parts have none.
func escapeQuotes(name string) string {
	return strings.NewReplacer(`\`, `\\`, `"`, "%22", "\r", "%0D", "\n", "%0A").Replace(name)
}
