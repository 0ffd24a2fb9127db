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
	var pieces []piece
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
		pieces = append(pieces, piece{text: text}, piece{file: part.File})
		text = []byte("\r\n")
	}
	text = append(text, "--"+boundary+"--\r\n"...)
	pieces = append(pieces, piece{text: text})
	call.Body = call.Body[:0]
	call.Upload = &wire.Upload{Length: lengthOf(pieces), Open: func() io.Reader { return readPieces(pieces) }}
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

// piece is a part of an upload: text in memory, or a file.
type piece struct {
	text []byte
	file *schema.File
}

func lengthOf(pieces []piece) int64 {
	var n int64
	for _, p := range pieces {
		if p.file != nil {
			n += p.file.Size
		} else {
			n += int64(len(p.text))
		}
	}
	return n
}

func readPieces(pieces []piece) io.Reader {
	readers := make([]io.Reader, len(pieces))
	for i, p := range pieces {
		if p.file != nil {
			readers[i] = p.file.Open()
		} else {
			readers[i] = bytes.NewReader(p.text)
		}
	}
	return io.MultiReader(readers...)
}

// escapeQuotes makes a name fit for a quoted parameter of a part's head, as
// browsers do. Line breaks never get here: heads of parts have none.
func escapeQuotes(name string) string {
	return strings.NewReplacer(`\`, `\\`, `"`, "%22", "\r", "%0D", "\n", "%0A").Replace(name)
}
