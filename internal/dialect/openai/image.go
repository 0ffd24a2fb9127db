package openai

import (
	"fmt"
	"slices"
	"strings"

	"github.com/patchbay-ai/patchbay/internal/dialect"
	"github.com/patchbay-ai/patchbay/internal/dialect/wire"
	"github.com/patchbay-ai/patchbay/internal/request/chat"
	"github.com/patchbay-ai/patchbay/internal/request/jsonscan"
	"github.com/patchbay-ai/patchbay/internal/request/jsonwrite"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
)

// Image passes image requests on: generations as JSON, edits as forms.
var Image = &dialect.Adapter{
	Call: callImage, Reply: replyImage, AsksForEvents: asksForEventsImage, PassEvents: newPassedEvents,
	Split: splitImage,
}

// callImage passes the request on.
func callImage(req *schema.Request, to *dialect.Target, call *wire.Call) error {
	if req.Form != nil {
		passForm(req, to, call)
		return nil
	}
	return dialect.PassJSON(req, to, call, "application/json", call.Edits[:0], dialect.Field{})
}

// replyImage passes images on. A caller that asked for one form never gets the other
// in its place: bytes can be given as an address that contains them and taken out
// of one, but an address that only the gateway may reach is no substitute for
// bytes.
func replyImage(req *schema.Request, answer dialect.Answer, reply *dialect.Reply) error {
	root, err := reply.Scan(answer.Body)
	if err != nil {
		return err
	}
	data := root.Get("data")
	if data.Kind() != jsonscan.Array || data.Empty() {
		return dialect.Invalid("no images")
	}
	reply.Usage = schema.ReadUsage(root.Get("usage"))
	edits := reply.Edits[:0]
	for image := range data.All() {
		address, content := image.Get("url"), image.Get("b64_json")
		hasAddress := address.Kind() == jsonscan.String && len(address.Text()) > 0
		hasContent := content.Kind() == jsonscan.String && len(content.Text()) > 0
		switch {
		case !hasAddress && !hasContent:
			return dialect.Invalid("an image without content")
		case req.ImageFormat == "b64_json" && !hasContent:
			if edits, err = extractImage(edits, address, content); err != nil {
				return err
			}
		case req.ImageFormat == "url" && !hasAddress:
			edits = append(edits, inlineImage(address, content))
		}
	}
	if root.Get("created").Kind() != jsonscan.Number {
		edits = append(edits, stampCreated(root))
	}
	edits = renameOnly(edits, root, req)
	reply.Splice(edits)
	return nil
}

// asksForEventsImage reports whether the client wants images while they are made.
func asksForEventsImage(req *schema.Request) bool {
	if req.Form != nil {
		return formAsksForEvents(req.Form)
	}
	return req.Field("stream").Kind() == jsonscan.True
}

// splitImage makes a stream of images that were given whole: one event for each, as for an
// image that is complete. Clients that read events would take any other answer for a
// stream without images.
func splitImage(req *schema.Request, reply *dialect.Reply) (*dialect.Stream, error) {
	if !asksForEventsImage(req) {
		return nil, nil
	}
	var doc jsonscan.Document
	if _, err := dialect.Parse(&doc, slices.Concat(reply.Segments...)); err != nil {
		return nil, err
	}
	root, kind := doc.Root(), `"type":"image_generation.completed"`
	if req.Form != nil {
		kind = `"type":"image_edit.completed"`
	}
	var events [][]byte
	for image := range root.Get("data").All() {
		var w jsonwrite.Writer
		w.Out = make([]byte, 0, len(image.Raw())+512)
		w.Object()
		w.Literal(kind)
		w.Field("created_at", root.Get("created"))
		for _, name := range []string{"background", "output_format", "quality", "size"} {
			w.Field(name, root.Get(name))
		}
		members := dialect.CompactObject(image) // an image has some members
		w.Raw(members[1 : len(members)-1])
		if usage := root.Get("usage"); usage.Given() && image.Next().Kind() == jsonscan.Absent { // it counts all images
			w.Member("usage", dialect.CompactObject(usage))
		}
		w.EndObject()
		events = append(events, w.Out)
	}
	return dialect.StoredEvents(reply.Usage, events...), nil
}

// extractImage turns an address that contains an image into its content. Any
// other address is an error.
func extractImage(edits []jsonscan.Edit, address, content jsonscan.Value) ([]jsonscan.Edit, error) {
	head, bytes, _ := strings.Cut(string(address.Text()), ",")
	head = strings.ToLower(head)
	if !strings.HasPrefix(head, "data:") || !strings.HasSuffix(head, ";base64") || bytes == "" {
		return nil, fmt.Errorf("%w: an address instead of the image that was asked for", dialect.ErrFormat)
	}
	extracted := jsonwrite.AppendText(nil, bytes)
	if content.Kind() != jsonscan.Absent {
		return append(edits, content.Replace(extracted), address.Remove()), nil
	}
	start, end := address.MemberSpan()
	return append(edits, jsonscan.Edit{Start: start, End: end, With: append([]byte(`"b64_json":`), extracted...)}), nil
}

// inlineImage turns the content of an image into an address that contains it.
func inlineImage(address, content jsonscan.Value) jsonscan.Edit {
	raw := content.Raw()
	inline := append([]byte(`"data:`), chat.ImageType(content.Text())...)
	inline = append(inline, ";base64,"...)
	inline = append(inline, raw[1:]...) // with the closing quote
	if address.Kind() != jsonscan.Absent {
		return address.Replace(inline)
	}
	start, end := content.MemberSpan()
	return jsonscan.Edit{Start: start, End: end, With: append([]byte(`"url":`), inline...)}
}
