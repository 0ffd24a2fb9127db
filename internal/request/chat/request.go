package chat

import (
	"bytes"
	"iter"

	"github.com/patchbay-ai/patchbay/internal/request/jsonscan"
	"github.com/patchbay-ai/patchbay/internal/request/jsonwrite"
)

// Request is a request for the next message of a conversation. Members that are JSON are
// nil where the request does not have them, or has null.
type Request struct {
	Settings
	Messages   []Message
	Tools      []Tool
	ToolChoice ToolChoice
	// SingleCall says that the model may call one tool at a time only.
	SingleCall bool
}

// Text is the content of a JSON string between its quotes, with its escapes. A text that is
// only passed on is not decoded. It is nil where there is no string.
type Text []byte

// TextOf returns the text of a string, nil for anything else. Appending to it leaves the
// document alone.
func TextOf(v jsonscan.Value) Text {
	if v.Kind() != jsonscan.String {
		return nil
	}
	raw := v.Raw()
	return raw[1 : len(raw)-1 : len(raw)-1]
}

// TextIn returns the text of a member, as TextOf does.
func TextIn(v jsonscan.Value, name string) Text { return TextOf(v.Get(name)) }

// Escape returns a text with the escapes that a JSON string needs.
func Escape[T string | []byte](text T) Text {
	quoted := jsonwrite.AppendText(nil, text)
	return quoted[1 : len(quoted)-1 : len(quoted)-1]
}

// JoinApart joins two texts, with an empty line between them unless one of them is empty.
func JoinApart(a, b Text) Text {
	switch {
	case len(a) == 0:
		return b
	case len(b) == 0:
		return a
	}
	return append(append(a, `\n\n`...), b...)
}

// Bytes returns the text without its escapes. It shares memory with the text if there are
// no escapes.
func (t Text) Bytes() []byte { return Unescape(t) }

// String returns a copy of the text without its escapes.
func (t Text) String() string { return string(t.Bytes()) }

// The roles of messages.
const (
	System    = "system"
	Developer = "developer"
	User      = "user"
	Assistant = "assistant"
	ToolRole  = "tool"
	Function  = "function" // the result of a call in the old form, which has no id
)

// Message is one message of a conversation.
type Message struct {
	Role string
	Content
	// Name is the name of the speaker, or of the function that returned the message as
	// its result.
	Name Text
	// CallID names the call that has the message as its result.
	CallID Text
	// Calls are the tools that the model called. FunctionCall is a call in the old form,
	// which has no id.
	Calls        []ToolCall
	FunctionCall *ToolCall
	// Refusal holds the model's words in place of a content, and Reasoning its thoughts.
	Refusal, Reasoning Text
	// Thinking, Details and Extra go back unchanged to the backend that made the message:
	// the arrays thinking_blocks (Anthropic) and reasoning_details (OpenRouter), and the
	// object extra_content (Google).
	Thinking, Details, Extra []byte
	// Raw is the message as it came in the unified shape; nil for one of another door.
	Raw []byte
}

// Content is the content of a message: a text or parts. Both are nil where it says
// nothing.
type Content struct {
	Text  Text
	Parts []Part
}

// The types of parts that dialects know, in the words of the unified API. A part may have
// any other type.
const (
	TextPart    = "text"
	RefusalPart = "refusal"
	ImagePart   = "image_url"
	VideoPart   = "video_url"
	SoundPart   = "audio_url"
	AudioPart   = "input_audio"
	FilePart    = "file"
	TokensPart  = "tokens" // the ids of tokens, of a prompt that is to be completed
)

// Part is a part of a content.
type Part struct {
	Type string
	// Text is the text of a text part or of a refusal; nil where the part has none.
	Text Text
	// URL is where an image, a video, a sound or a file is. It is nil where the part has
	// the content itself: Data, in base64, of the type MediaType.
	URL       Text
	MediaType string
	Data      Text
	// Detail says how closely the model is to look at an image, and Name is the name of a
	// file.
	Detail, Name Text
	// Cache is the hint for Anthropic's cache of prompts.
	Cache []byte
	// Raw is the part as it came in the unified shape; nil for one of another door.
	Raw []byte
}

// Said returns a message with a text.
func Said(role string, text Text) Message { return Message{Role: role, Content: Content{Text: text}} }

// NewText returns a part that is a text.
func NewText(text Text) Part { return Part{Type: TextPart, Text: text} }

// Object returns the arguments as a JSON object, and false if they are no object.
func (c *ToolCall) Object() (object []byte, ok bool) {
	text := c.Input
	if text == nil {
		text = bytes.TrimSpace(c.Arguments.Bytes())
	}
	if len(text) == 0 || string(text) == "null" {
		return []byte("{}"), true
	}
	return text, IsObject(text)
}

// IsObject reports whether a text is a JSON object.
func IsObject(text []byte) bool {
	if len(text) == 0 || text[0] != '{' {
		return false
	}
	doc := jsonscan.Document{AllowDuplicateKeys: true}
	return doc.Parse(text) == nil
}

// Tool is a tool that the model may call.
type Tool struct {
	// Type is FunctionTool, or another one that only the backend knows.
	Type string
	// IsFunction says that the tool describes a function. Its name, description, schema
	// of the parameters and strictness follow.
	IsFunction          bool
	Name                Text
	Description, Schema []byte
	Strict              []byte
	// Cache is the hint for Anthropic's cache of prompts.
	Cache []byte
	// Raw is the tool as it came in the unified shape; nil for one of another door.
	Raw []byte
}

// FunctionTool is the type of a tool that is a function.
const FunctionTool = "function"

// ToolChoice says which tools the model is to call.
type ToolChoice struct {
	// Mode is auto, none, required, function or allowed_tools, or another word; empty where
	// nothing is said.
	Mode string
	// Name is the name of the one function to call.
	Name Text
	// Allowed are the functions that the model may call, or must call some of if Must is
	// set. A nil element names no function.
	Allowed []Text
	Must    bool
	// Raw is the choice as it came in the unified shape; nil for one of another door.
	Raw []byte
}

// Given reports whether the request says which tools to call.
func (c *ToolChoice) Given() bool { return c.Mode != "" || c.Raw != nil }

// Format is the form that the answer is to have.
type Format struct {
	// Given says that the request has a format. Type is text, json_object, json_schema,
	// or another word.
	Given bool
	Type  string
	// Name, Description, Schema and Strict come from json_schema.
	Name                Text
	Description, Schema []byte
	Strict              []byte
}

// SchemaFormat returns the form of an answer that a schema without a name describes.
func SchemaFormat(schema []byte) Format {
	return Format{Given: true, Type: "json_schema", Name: Text("answer"), Schema: schema}
}

// HasSchema reports whether the schema is an object.
func (f *Format) HasSchema() bool { return len(f.Schema) > 0 && f.Schema[0] == '{' }

// Settings are how the answer is to be made. Values are kept as they were written;
// values that the request does not have are absent.
type Settings struct {
	// MaxTokens is how long the answer may be, and N how many are wanted.
	MaxTokens, N                        jsonscan.Value
	Temperature, TopP, TopK, Seed, Stop jsonscan.Value
	PresencePenalty, FrequencyPenalty   jsonscan.Value
	TopLogprobs, Verbosity              jsonscan.Value
	Logprobs                            []byte // JSON
	Format                              Format
	// User is the client's name of the person that it works for.
	User Text
	// Effort is how hard the model is to think; empty where nothing is said. EffortHint is
	// the same from a client that leaves it open whether the model can think at all: a
	// dialect uses it only where it can tell.
	Effort, EffortHint string

	// own and extra are the members beside these, and the members of extra_body.
	own, extra jsonscan.Value
}

// Other returns a member that has no place in Settings or Request.
func (s *Settings) Other(name string) jsonscan.Value {
	if v := s.own.Get(name); v.Given() {
		return v
	}
	return s.extra.Get(name)
}

// Others returns the given members that have no place in Settings or Request, and reports
// for each whether it is in extra_body. Of two with one name, the one beside extra_body
// counts.
func (s *Settings) Others() iter.Seq2[jsonscan.Value, bool] {
	return func(yield func(jsonscan.Value, bool) bool) {
		for m := range s.own.All() {
			if m.Given() && !names.Has(m.Key()) && !yield(m, false) {
				return
			}
		}
		own := s.own.Members()
		for m := range s.extra.All() {
			if m.Given() && !names.Has(m.Key()) && !own.Get(m.Key()).Given() && !yield(m, true) {
				return
			}
		}
	}
}
