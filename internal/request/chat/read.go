package chat

import (
	"bytes"
	"iter"
	"slices"
	"unsafe"

	"github.com/patchbay-ai/patchbay/internal/request/jsonscan"
)

// names are the names of the members of a unified request that have a place in a Request.
var names = jsonscan.NewNames("model", "messages", "stream", "stream_options", "extra_body", "tools", "tool_choice",
	"parallel_tool_calls", "response_format", "user", "reasoning_effort", "max_completion_tokens", "max_tokens", "n",
	"temperature", "top_p", "top_k", "seed", "stop", "presence_penalty", "frequency_penalty", "logprobs",
	"top_logprobs", "verbosity")

// ReadSettings reads the settings of a request in the unified shape. The members of extra
// count as if they stood among its own, unless the request has these itself. Either may be
// absent.
func ReadSettings(own, extra jsonscan.Value) Settings {
	s := Settings{own: own, extra: extra}
	s.N, s.Temperature, s.TopP, s.TopK = s.Other("n"), s.Other("temperature"), s.Other("top_p"), s.Other("top_k")
	s.Seed, s.Stop, s.PresencePenalty, s.FrequencyPenalty = s.Other("seed"), s.Other("stop"),
		s.Other("presence_penalty"), s.Other("frequency_penalty")
	s.Logprobs, s.TopLogprobs, s.Verbosity = Given(s.Other("logprobs")), s.Other("top_logprobs"), s.Other("verbosity")
	s.User = TextOf(s.Other("user"))
	if s.MaxTokens = s.Other("max_completion_tokens"); !s.MaxTokens.Given() {
		s.MaxTokens = s.Other("max_tokens")
	}
	s.SetEffort(s.Other("reasoning_effort"))
	if format := s.Other("response_format"); format.Given() {
		s.Format = Format{Given: true, Type: string(format.TextOf("type"))}
	}
	return s
}

// SetEffort sets how hard the model is to think. A value that is no word is kept,
// because every dialect refuses words that it does not know.
func (s *Settings) SetEffort(v jsonscan.Value) {
	if v.Kind() == jsonscan.String {
		s.Effort = string(v.Text())
	} else if v.Given() {
		s.Effort = string(v.Raw())
	}
}

// Read reads the parts of a request in the unified shape beside its settings, which were
// read before. Room gives it memory; its error comes from Room.
func (r *Request) Read(room Room) error {
	d := docs{Room: room}
	list := r.own.Get("messages")
	r.Messages = Grow[Message](&d.Room, nil, list)
	for _, m := range d.All(list) {
		r.Messages = append(r.Messages, d.message(m))
	}
	if tools := r.Other("tools"); tools.Kind() == jsonscan.Array {
		tools = d.outer.Rescan(tools)
		r.Tools = Grow[Tool](&d.Room, nil, tools)
		for _, tool := range d.All(tools) {
			r.Tools = append(r.Tools, readTool(tool))
		}
	}
	if choice := r.Other("tool_choice"); choice.Given() {
		r.ToolChoice = d.choice(choice)
	}
	r.SingleCall = r.Other("parallel_tool_calls").Kind() == jsonscan.False
	if r.Format.Type == "json_schema" {
		shape := d.outer.Rescan(r.Other("response_format")).Get("json_schema")
		r.Format.Name = TextIn(shape, "name")
		r.Format.Description, r.Format.Schema, r.Format.Strict = Given(shape.Get("description")),
			Given(shape.Get("schema")), Given(shape.Get("strict"))
	}
	return d.Err
}

// Room is the memory for the lists of a Request, which may be larger than the text that it
// is read from.
type Room struct {
	// Reserve is asked for memory before it is taken; nil asks nobody.
	Reserve func(bytes int) error
	// Err is the error of Reserve. There is no room after it.
	Err error

	taken int // and not yet asked for
}

// All returns the elements of an array with their places, while there is room for them.
func (r *Room) All(array jsonscan.Value) iter.Seq2[int, jsonscan.Value] {
	return func(yield func(int, jsonscan.Value) bool) {
		i := 0
		for v := array.First(); v.Kind() != jsonscan.Absent && r.Err == nil && yield(i, v); v = v.Next() {
			i++
		}
	}
}

// roomStep is how much memory is asked for at a time.
const roomStep = 32 << 10

// Grow returns a list with room for the elements of an array behind its own.
func Grow[T any](room *Room, list []T, array jsonscan.Value) []T {
	n := array.Len()
	room.taken += n * int(unsafe.Sizeof(*new(T)))
	if room.taken > roomStep && room.Err == nil && room.Reserve != nil {
		room.Err = room.Reserve(room.taken)
		room.taken = 0
	}
	switch {
	case room.Err != nil:
		return list
	case list == nil:
		return make([]T, 0, n)
	}
	return slices.Grow(list, n)
}

// Given returns the JSON text of a value that is present and not null, and nil for
// others.
func Given(v jsonscan.Value) []byte {
	if !v.Given() {
		return nil
	}
	return v.Raw()
}

// docs scan again the values that lie deeper than a request is recorded.
type docs struct {
	Room
	outer, inner jsonscan.Document
}

// message reads one message.
func (d *docs) message(m jsonscan.Value) Message {
	message := Message{
		Role: word(m.TextOf("role")), Content: d.content(m.Get("content")), Raw: m.Raw(),
		Name: TextIn(m, "name"), CallID: TextIn(m, "tool_call_id"),
		Refusal: TextIn(m, "refusal"), Reasoning: TextIn(m, "reasoning_content"),
		Thinking: ofKind(m.Get("thinking_blocks"), jsonscan.Array),
		Details:  ofKind(m.Get("reasoning_details"), jsonscan.Array),
		Extra:    ofKind(m.Get("extra_content"), jsonscan.Object),
	}
	if message.Reasoning == nil {
		message.Reasoning = TextIn(m, "reasoning")
	}
	if calls := m.Get("tool_calls"); calls.Kind() == jsonscan.Array {
		calls = d.outer.Rescan(calls)
		message.Calls = Grow[ToolCall](&d.Room, nil, calls)
		for _, c := range d.All(calls) {
			call := readCall(c.Get("function"))
			call.ID, call.Extra = TextIn(c, "id"), ofKind(c.Get("extra_content"), jsonscan.Object)
			message.Calls = append(message.Calls, call)
		}
	}
	if call := m.Get("function_call"); call.Kind() == jsonscan.Object {
		old := readCall(d.outer.Rescan(call))
		message.FunctionCall = &old
	}
	return message
}

// ofKind returns the JSON text of a value that is of a kind, nil for others.
func ofKind(v jsonscan.Value, kind jsonscan.Kind) []byte {
	if v.Kind() != kind {
		return nil
	}
	return v.Raw()
}

// ReadContent reads a content in the unified shape.
func ReadContent(v jsonscan.Value) Content { return new(docs).content(v) }

// content reads the content of a message.
func (d *docs) content(content jsonscan.Value) Content {
	if content.Kind() != jsonscan.Array {
		return Content{Text: TextOf(content)}
	}
	list := d.outer.Rescan(content)
	parts := Grow[Part](&d.Room, nil, list)
	for _, p := range d.All(list) {
		parts = append(parts, ReadPart(p))
	}
	return Content{Parts: parts}
}

// ReadPart reads a part in the unified shape.
func ReadPart(p jsonscan.Value) Part {
	part := Part{Type: word(p.TextOf("type")), Cache: Given(p.Get("cache_control")), Raw: p.Raw()}
	inner := p.Get(part.Type)
	switch part.Type {
	case RefusalPart:
		part.Text = TextOf(inner)
	case ImagePart, VideoPart, SoundPart:
		address := inner
		if inner.Kind() == jsonscan.Object {
			address, part.Detail = inner.Get("url"), TextIn(inner, "detail")
		}
		part.SetSource(TextOf(address))
	case AudioPart:
		if format := TextIn(inner, "format"); len(format) > 0 {
			part.MediaType, part.Data = "audio/"+format.String(), TextIn(inner, "data")
		}
	case FilePart:
		part.Name = TextIn(inner, "filename")
		source := inner.Get("file_data")
		if !source.Given() {
			source = inner.Get("file_id")
		}
		part.SetSource(TextOf(source))
	default:
		part.Text = TextIn(p, "text")
	}
	return part
}

// ReadPrompts reads the prompts of a request for completions, each as a message of the user.
// One that is the ids of tokens is a part of the type tokens.
func (r *Request) ReadPrompts(room Room, prompts jsonscan.Value) error {
	add := func(prompt jsonscan.Value) {
		content := Content{Text: TextOf(prompt)}
		if content.Text == nil {
			content.Parts = []Part{{Type: TokensPart, Raw: prompt.Raw()}}
		}
		r.Messages = append(r.Messages, Message{Role: User, Content: content})
	}
	if prompts.Kind() != jsonscan.Array || prompts.First().Kind() == jsonscan.Number {
		add(prompts)
		return nil
	}
	r.Messages = Grow(&room, r.Messages, prompts)
	for _, prompt := range room.All(prompts) {
		add(prompt)
	}
	return room.Err
}

// SetSource sets the address of a part, or its content if that is a data URL in base64.
func (p *Part) SetSource(address Text) {
	const scheme, encoding = "data:", ";base64"
	p.URL = address
	head, data, found := bytes.Cut(address, []byte{','})
	if !found || len(data) == 0 || len(head) < len(scheme) || !bytes.EqualFold(head[:len(scheme)], []byte(scheme)) {
		return
	}
	kind, isEncoded := bytes.CutSuffix(bytes.ToLower(Text(head[len(scheme):]).Bytes()), []byte(encoding))
	if !isEncoded {
		return
	}
	kind, _, _ = bytes.Cut(kind, []byte{';'}) // parameters say nothing about the content
	p.SetData(string(kind), data)
}

// SignatureIn returns the signature of thoughts that a backend of Google's wants back with a
// message or a call, nil where its extra content has none.
func SignatureIn(extra []byte) Text {
	doc := jsonscan.Document{AllowDuplicateKeys: true}
	if extra == nil || doc.Parse(extra) != nil {
		return nil
	}
	return TextIn(doc.Root().Get("google"), "thought_signature")
}

// Signed returns extra content with such a signature, as callers get it and give it back:
// the form of Google's own OpenAI surface. It is nil without a signature.
func Signed(signature Text) []byte {
	if len(signature) == 0 {
		return nil
	}
	return slices.Concat([]byte(`{"google":{"thought_signature":"`), signature, []byte(`"}}`))
}

// SetData sets the content of a part, in base64.
func (p *Part) SetData(mediaType string, data Text) {
	if mediaType == "image/jpg" {
		mediaType = "image/jpeg" // a common slip, which backends refuse
	}
	p.URL, p.MediaType, p.Data = nil, mediaType, data
}

// readCall reads the function that a call names.
func readCall(function jsonscan.Value) ToolCall {
	arguments := function.Get("arguments")
	call := ToolCall{Name: TextIn(function, "name"), Arguments: TextOf(arguments)}
	if call.Arguments == nil {
		call.Input = Given(arguments)
	}
	return call
}

func readTool(tool jsonscan.Value) Tool {
	t := Tool{Type: word(tool.TextOf("type")), Cache: Given(tool.Get("cache_control")), Raw: tool.Raw()}
	if function := tool.Get("function"); function.Kind() == jsonscan.Object {
		t.IsFunction, t.Name, t.Description = true, TextIn(function, "name"), Given(function.Get("description"))
		t.Schema, t.Strict = Given(function.Get("parameters")), Given(function.Get("strict"))
	} else {
		t.Name = TextIn(tool, "name")
	}
	return t
}

// choice reads which tools to call: in the unified words, or in the words of Anthropic's
// API, which has the name of a chosen tool beside the type.
func (d *docs) choice(v jsonscan.Value) ToolChoice {
	v = d.outer.Rescan(v)
	choice := ToolChoice{Raw: v.Raw(), Mode: word(v.Text())}
	if v.Kind() != jsonscan.Object {
		return choice
	}
	choice.Mode, choice.Name = word(v.TextOf("type")), TextIn(v.Get("function"), "name")
	switch choice.Mode {
	case "tool":
		choice.Mode, choice.Name = FunctionTool, TextIn(v, "name")
	case "allowed_tools":
		allowed := v.Get("allowed_tools")
		choice.Must = allowed.Is("mode", "required")
		list := d.inner.Rescan(allowed.Get("tools"))
		for tool := range list.All() {
			choice.Allowed = append(choice.Allowed, TextIn(tool.Get("function"), "name"))
		}
	}
	return choice
}

// word returns a word, without an allocation for the words of nearly all requests.
func word(text []byte) string {
	for _, known := range [...]string{System, User, Assistant, ToolRole, TextPart, ImagePart, FunctionTool} {
		if string(text) == known {
			return known
		}
	}
	return string(text)
}

// ImageType returns the type of an image by how it begins in base64.
func ImageType(data []byte) string {
	for _, known := range [...]struct{ begin, kind string }{{"/9j/", "image/jpeg"}, {"R0lG", "image/gif"},
		{"UklGR", "image/webp"}} {
		if bytes.HasPrefix(data, []byte(known.begin)) {
			return known.kind
		}
	}
	return "image/png"
}

// EffortOf returns the effort whose usual number of tokens for thinking is the nearest to a budget.
func EffortOf(budget int64) string {
	const low, medium = 2048, 8192
	switch {
	case budget <= low:
		return "low"
	case budget <= medium:
		return "medium"
	}
	return "high"
}
