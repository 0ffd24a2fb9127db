package responses

import (
	"slices"

	"github.com/patchbay-ai/patchbay/internal/request/chat"
	"github.com/patchbay-ai/patchbay/internal/request/jsonscan"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
)

// content reads the content of a message or the output of a tool. A single text is no part,
// because every backend takes it.
func (r *reader) content(content jsonscan.Value) (chat.Content, *schema.Error) {
	if content.Kind() == jsonscan.String {
		return chat.Content{Text: chat.TextOf(content)}, nil
	}
	if content.Kind() != jsonscan.Array {
		return chat.Content{}, wrongContent(content)
	}
	parts, err := readParts(&r.parts, content, &r.room)
	return contentOf(parts), err
}

// contentOf returns the content that has these parts.
func contentOf(parts []chat.Part) chat.Content {
	switch {
	case len(parts) == 0:
		return chat.Content{Text: chat.Text{}}
	case len(parts) == 1 && parts[0].Type == chat.TextPart:
		return chat.Content{Text: parts[0].Text}
	}
	return chat.Content{Parts: parts}
}

// readParts reads the parts of an array.
func readParts(doc *jsonscan.Document, array jsonscan.Value, room *chat.Room) ([]chat.Part, *schema.Error) {
	list := doc.Rescan(array)
	parts := chat.Grow[chat.Part](room, nil, list)
	for i, p := range room.All(list) {
		part, err := readPart(p)
		if err != nil {
			return nil, err.InsideElement("content", i)
		}
		parts = append(parts, part)
	}
	return parts, nil
}

// output reads the output of a tool. That is text: images and files in it go with the
// user's next message, because many backends take them nowhere else.
func (r *reader) output(output jsonscan.Value, call chat.Text) (chat.Content, *schema.Error) {
	if output.Kind() != jsonscan.Array {
		return r.content(output)
	}
	parts, err := readParts(&r.parts, output, &r.room)
	if err != nil {
		return chat.Content{}, err
	}
	isMedia := func(p chat.Part) bool { return p.Type != chat.TextPart }
	texts := slices.DeleteFunc(slices.Clone(parts), isMedia)
	if len(texts) < len(parts) {
		r.media = append(r.media, chat.NewText(slices.Concat(chat.Text("The output of the tool call "), call,
			chat.Text(":"))))
		r.media = append(r.media, slices.DeleteFunc(parts, func(p chat.Part) bool { return !isMedia(p) })...)
		if len(texts) == 0 {
			return chat.Content{Text: chat.Text("The output is in the next message.")}, nil
		}
	}
	return contentOf(texts), nil
}

func wrongContent(content jsonscan.Value) *schema.Error {
	if !content.Given() {
		return schema.MissingParameter("content")
	}
	return invalidValue("content", "call.content")
}

// readPart reads one part of a message.
func readPart(p jsonscan.Value) (part chat.Part, err *schema.Error) {
	switch kind := string(p.TextOf("type")); kind {
	case "input_text", "output_text", "text":
		part = chat.NewText(chat.TextIn(p, "text"))
		if part.Text == nil {
			return part, invalidValue("text", "call.part_text")
		}
	case "refusal":
		part = chat.Part{Type: chat.RefusalPart, Text: chat.TextIn(p, "refusal")}
		if part.Text == nil {
			return part, invalidValue("refusal", "call.refusal_text")
		}
	case "input_image":
		return readImage(p)
	case "input_file":
		return readFile(p)
	case "input_audio":
		part = chat.ReadPart(p)
	case "":
		return part, schema.MissingParameter("type")
	default:
		return part, invalidValue("type", "call.part_type", "kind", shorten(kind))
	}
	return part, nil
}

func readImage(p jsonscan.Value) (chat.Part, *schema.Error) {
	part := chat.Part{Type: chat.ImagePart}
	address := chat.TextIn(p, "image_url")
	if address == nil {
		if p.Get("file_id").Given() {
			return part, invalidValue("file_id", "call.image_file")
		}
		return part, schema.MissingParameter("image_url")
	}
	part.SetSource(address)
	switch detail := string(p.TextOf("detail")); detail {
	case "low", "high", "auto":
		part.Detail = chat.Text(detail)
	case "original":
		part.Detail = chat.Text("high")
	}
	return part, nil
}

func readFile(p jsonscan.Value) (chat.Part, *schema.Error) {
	part := chat.Part{Type: chat.FilePart, Name: chat.TextIn(p, "filename")}
	data := chat.TextIn(p, "file_data")
	if data == nil {
		for _, name := range []string{"file_id", "file_url"} {
			if p.Get(name).Given() {
				return part, invalidValue(name, "call.file_elsewhere")
			}
		}
		return part, schema.MissingParameter("file_data")
	}
	part.SetSource(data)
	return part, nil
}
