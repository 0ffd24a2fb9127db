// Package shape has the types with which packages declare the members of requests and replies
// of the unified API. Nothing is decoded into them, because the gateway passes on members that
// it does not know: schema.FieldsOf and the OpenAPI document read their types and tags.
package shape

import (
	"math"

	"github.com/go-json-experiment/json/jsontext"
)

// Any is a value of any kind.
type Any = jsontext.Value

// Object is an object with any members.
type Object map[string]jsontext.Value

// More is embedded in a struct that allows further members, which the gateway passes on.
type More struct {
	Others jsontext.Value `json:",unknown"`
}

// Either is a value of one type or of another one.
type Either[A, B any] struct{}

// Alternatives are a value of each type.
func (Either[A, B]) Alternatives() []any { return []any{*new(A), *new(B)} }

// Texts is a text, or a list of texts.
type Texts struct{ Either[string, []string] }

// ModelName is the name of a model, which has no control characters and is not blank.
type ModelName string

// Keywords describe a name, and its greatest length.
func (ModelName) Keywords() map[string]any {
	return map[string]any{"pattern": `^[^\x00-\x1f\x7f]*[^\x00-\x20\x7f][^\x00-\x1f\x7f]*$`, "maxLength": 512}
}

// Text is a string that is not empty.
type Text string

// Keywords say that the string is not empty.
func (Text) Keywords() map[string]any { return map[string]any{"minLength": 1} }

// ContentPart is a part of the content of a message.
type ContentPart struct {
	Type string `json:"type" required:"true" minLength:"1" example:"text"`
	More
}

// Prompt is a text, texts, or token ids in the two forms that clients send.
type Prompt struct{}

// Alternatives are these forms. An empty list would match three of them, and is not allowed.
func (Prompt) Alternatives() []any { return []any{Text(""), []string{}, []tokenID{}, []tokenIDs{}} }

// tokenID is the number of a token, which backends keep in 32 bits.
type tokenID int64

// Keywords are its bounds.
func (tokenID) Keywords() map[string]any {
	return map[string]any{"minimum": 0, "maximum": math.MaxInt32}
}

// tokenIDs are the tokens of one text, which is not empty.
type tokenIDs []tokenID

// Keywords say that the text is not empty.
func (tokenIDs) Keywords() map[string]any { return map[string]any{"minItems": 1} }
