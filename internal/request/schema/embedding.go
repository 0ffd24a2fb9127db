package schema

import (
	"github.com/patchbay-ai/patchbay/internal/request/jsonscan"

	"github.com/patchbay-ai/patchbay/internal/plain/say"
)

// ParseEmbedding reads and checks an embeddings request.
func (r *Request) ParseEmbedding(body []byte) error {
	if err := r.parse(Embedding, body, EmbeddingFields); err != nil {
		return err
	}
	// Official clients send token ids in two shapes.
	if err := r.checkInput(say.New("value.texts_or_ids"), jsonscan.String, jsonscan.Number,
		jsonscan.Array); err != nil {
		return err
	}
	format := r.Field("encoding_format")
	switch {
	case !format.Given():
	case format.Kind() != jsonscan.String:
		return BadField("encoding_format", "value.string")
	default:
		switch string(format.Text()) {
		case "float":
		case "base64":
			r.Base64 = true
		default:
			return BadField("encoding_format", "value.or", "known", "float", "last", "base64")
		}
	}
	return nil
}

// checkInput accepts a text, or a list of values of some kinds.
func (r *Request) checkInput(want say.Sentence, kinds ...jsonscan.Kind) error {
	input := r.Field("input")
	switch input.Kind() {
	case jsonscan.Absent, jsonscan.Null:
		return MissingParameter("input")
	case jsonscan.String:
		return nil
	case jsonscan.Array:
	default:
		return Invalid("input", want)
	}
	if input.Empty() {
		return BadField("input", "field.empty")
	}
	return checkList("input", input, want, kinds...)
}

// HasTokenIDs reports whether the input of an embeddings request is token ids
// rather than text.
func (r *Request) HasTokenIDs() bool {
	input := r.Field("input")
	if input.Kind() != jsonscan.Array {
		return false
	}
	switch input.First().Kind() {
	case jsonscan.Number, jsonscan.Array:
		return true
	}
	return false
}
