package responses

import (
	"slices"
	"strconv"

	"github.com/patchbay-ai/patchbay/internal/dialect"
	"github.com/patchbay-ai/patchbay/internal/jsonscan"
	"github.com/patchbay-ai/patchbay/internal/jsonwrite"
	"github.com/patchbay-ai/patchbay/internal/schema"
)

// content returns the content of a message or the output of a tool in the unified form,
// as JSON. A single text is a string, which every backend takes.
func (r *reader) content(content jsonscan.Value) ([]byte, *schema.Error) {
	if content.Kind() == jsonscan.String {
		return content.Raw(), nil
	}
	if content.Kind() != jsonscan.Array {
		return nil, wrongContent(content)
	}
	list := dialect.Rescan(&r.parts, content)
	if list.Empty() {
		return []byte(`""`), nil
	}
	if first := list.First(); first.Next().Kind() == jsonscan.Absent {
		if text := textOf(first); text.Kind() == jsonscan.String {
			return text.Raw(), nil
		}
	}
	w := jsonwrite.Writer{Out: make([]byte, 0, len(content.Raw())+len(content.Raw())/4)}
	w.Array()
	i := 0
	for p := list.First(); p.Kind() != jsonscan.Absent; p = p.Next() {
		if err := writePart(&w, p); err != nil {
			return nil, within("content["+strconv.Itoa(i)+"]", err)
		}
		i++
	}
	w.EndArray()
	return w.Out, nil
}

// output returns what a tool returned in the unified form, as JSON. That is text:
// images and files in it go with the user's next message, because many backends take
// them nowhere else.
func (r *reader) output(output, call jsonscan.Value) ([]byte, *schema.Error) {
	if output.Kind() != jsonscan.Array {
		return r.content(output)
	}
	var texts jsonwrite.Writer
	var text jsonscan.Value // the last of them
	i, media := 0, 0
	for p := dialect.Rescan(&r.parts, output).First(); p.Kind() != jsonscan.Absent; p = p.Next() {
		to := &texts
		if t := textOf(p); t.Kind() == jsonscan.String {
			text = t
		} else {
			to = &r.media
			if media++; media == 1 {
				dialect.WriteTextPart(&r.media, slices.Concat([]byte("The output of the tool call "), dialect.RawText(call), []byte(":")))
			}
		}
		if err := writePart(to, p); err != nil {
			return nil, within("content["+strconv.Itoa(i)+"]", err)
		}
		i++
	}
	switch i - media {
	case i:
		return r.content(output)
	case 0:
		return []byte(`"The output is in the next message."`), nil
	case 1:
		return text.Raw(), nil
	}
	return slices.Concat([]byte("["), texts.Out, []byte("]")), nil
}

func wrongContent(content jsonscan.Value) *schema.Error {
	if !content.Given() {
		return schema.MissingParameter("content")
	}
	return invalid("content", "The content must be a string or an array of parts.")
}

// textOf returns the text of a part that is nothing but text.
func textOf(p jsonscan.Value) jsonscan.Value {
	switch string(p.Get("type").Text()) {
	case "input_text", "output_text", "text":
		return p.Get("text")
	}
	return jsonscan.Value{}
}

// writePart writes one part of a message in the unified form.
func writePart(w *jsonwrite.Writer, p jsonscan.Value) *schema.Error {
	switch kind := string(p.Get("type").Text()); kind {
	case "input_text", "output_text", "text":
		text := p.Get("text")
		if text.Kind() != jsonscan.String {
			return invalid("text", "The text of a part must be a string.")
		}
		dialect.WriteTextPart(w, dialect.RawText(text))
	case "refusal":
		text := p.Get("refusal")
		if text.Kind() != jsonscan.String {
			return invalid("refusal", "The text of a refusal must be a string.")
		}
		w.Open(`{"type":"refusal","refusal":`)
		w.Raw(text.Raw())
		w.EndObject()
	case "input_image":
		return writeImage(w, p)
	case "input_file":
		return writeFile(w, p)
	case "input_audio":
		w.Raw(p.Raw())
	case "":
		return schema.MissingParameter("type")
	default:
		return invalid("type", "Parts of type '"+shorten(kind)+"' cannot be sent to the backend of this model. It takes input_text, input_image, input_file, output_text and refusal.")
	}
	return nil
}

func writeImage(w *jsonwrite.Writer, p jsonscan.Value) *schema.Error {
	address := p.Get("image_url")
	if address.Kind() != jsonscan.String {
		if p.Get("file_id").Given() {
			return invalid("file_id", "Files are not kept here, so that an image cannot be named by the id of a file. Send it as 'image_url', which may be a data URL.")
		}
		return schema.MissingParameter("image_url")
	}
	w.Open(`{"type":"image_url","image_url":{"url":`)
	w.Raw(address.Raw())
	switch detail := string(p.Get("detail").Text()); detail {
	case "low", "high", "auto":
		w.Name("detail")
		w.Plain(detail)
	case "original":
		w.Literal(`"detail":"high"`)
	}
	w.Close("}}")
	return nil
}

func writeFile(w *jsonwrite.Writer, p jsonscan.Value) *schema.Error {
	data := p.Get("file_data")
	if data.Kind() != jsonscan.String {
		for _, name := range []string{"file_id", "file_url"} {
			if p.Get(name).Given() {
				return invalid(name, "Files are neither kept nor fetched here. Send the file itself as 'file_data'.")
			}
		}
		return schema.MissingParameter("file_data")
	}
	w.Open(`{"type":"file","file":{"file_data":`)
	w.Raw(data.Raw())
	w.Field("filename", p.Get("filename"))
	w.Close("}}")
	return nil
}
