package adapter

import (
	"io"
	"net/url"
	"strconv"
	"strings"

	"github.com/patchbay-ai/patchbay/internal/jsonscan"
	"github.com/patchbay-ai/patchbay/internal/schema"
	"github.com/patchbay-ai/patchbay/internal/wire"
)

// geminiChat speaks Google's generateContent dialect.
type geminiChat struct{}

// Call translates the request. The model and whether the answer streams are in
// the address, everything else is in the body.
func (geminiChat) Call(req *schema.Request, to *Target, call *wire.Call) error {
	model := geminiModelOf(req, to)
	body, err := geminiBody(req, model)
	if err != nil {
		return err
	}
	accept := "application/json"
	if req.Stream {
		accept = "text/event-stream"
	}
	to.begin(call, geminiPath(to.Path, model, req.Stream), "application/json", accept)
	call.Body = append(call.Body[:0], body)
	return nil
}

// Reply turns a whole answer into a completion.
func (geminiChat) Reply(req *schema.Request, answer Answer, reply *Reply) error {
	a := geminiAnswer{model: req.Body.Root().Get("model").Raw()}
	if err := a.take(answer.Body); err != nil {
		return err
	}
	body, err := a.completion()
	if err != nil {
		return err
	}
	reply.Usage = a.usage.Usage
	reply.Segments = append(reply.Segments[:0], body)
	return nil
}

// Events reads server-sent events of partial answers.
func (geminiChat) Events(req *schema.Request, body io.Reader) Events {
	return newGeminiEvents(req, body)
}

// geminiModelOf returns the backend's name for the model, without the word that
// the backend's own lists put before it.
func geminiModelOf(req *schema.Request, to *Target) string {
	model := to.Model
	if model == "" {
		model = string(req.Model)
	}
	return strings.TrimPrefix(model, "models/")
}

// geminiPath fills the model into a path and chooses the method that streams or
// the one that does not. Without alt=sse a stream would be one JSON array.
func geminiPath(path, model string, stream bool) string {
	if tuned, ok := strings.CutPrefix(model, "tunedModels/"); ok {
		path = strings.Replace(path, "models/{model}", "tunedModels/{model}", 1)
		model = tuned
	}
	path = strings.Replace(path, "{model}", url.PathEscape(model), 1)
	if !stream {
		return strings.Replace(path, ":streamGenerateContent", ":generateContent", 1)
	}
	path = strings.Replace(path, ":generateContent", ":streamGenerateContent", 1)
	if strings.Contains(path, "alt=sse") {
		return path
	}
	if strings.Contains(path, "?") {
		return path + "&alt=sse"
	}
	return path + "?alt=sse"
}

// geminiGeneration tells the generation of a model by its name, 25 for 2.5. A
// Gemini model without a number is one of the names that move on to the newest.
func geminiGeneration(model string) int {
	const newest = 1000
	rest, ok := strings.CutPrefix(model, "gemini-")
	if !ok {
		return 0
	}
	number, _, _ := strings.Cut(rest, "-")
	version, err := strconv.ParseFloat(number, 64)
	if err != nil || version < 1 || version > 99 {
		return newest
	}
	return int(version * 10)
}

// geminiObject writes a JSON object of which every member is written once: the
// first one stands.
type geminiObject struct {
	out   []byte
	names []string
	given jsonscan.Keys
}

func (o *geminiObject) add(name string, raw []byte) {
	if !o.given.Add(name) {
		return
	}
	o.names = append(o.names, name)
	if len(o.out) > 0 {
		o.out = append(o.out, ',')
	}
	o.out = append(o.out, quote(name)...)
	o.out = append(o.out, ':')
	o.out = append(o.out, raw...)
}

// addField adds a field of the request as it came, if it was given.
func (o *geminiObject) addField(name string, v jsonscan.Value) {
	if v.Given() {
		o.add(name, v.Raw())
	}
}

func (o *geminiObject) bytes() []byte {
	return append(append([]byte{'{'}, o.out...), '}')
}

// geminiBody writes the body of a call.
func geminiBody(req *schema.Request, model string) ([]byte, error) {
	if err := (geminiChat{}).Refuse(req); err != nil {
		return nil, err
	}
	if err := reserveTranslation(req); err != nil {
		return nil, err
	}
	body := geminiObject{out: make([]byte, 0, len(req.Body.Data())+256)}
	if err := addGeminiContents(&body, req, model); err != nil {
		return nil, err
	}
	var schemas geminiSchemas
	if err := addGeminiTools(&body, req, &schemas); err != nil {
		return nil, err
	}
	var config geminiObject
	if err := fillGeminiConfig(&config, req, model, &schemas); err != nil {
		return nil, err
	}
	addGeminiExtensions(&body, &config, req)
	if len(config.names) > 0 {
		body.add("generationConfig", config.bytes())
	}
	return body.bytes(), nil
}

// Refuse names what the dialect has no word for and what would change the answer
// if it were left out.
func (geminiChat) Refuse(req *schema.Request) error {
	if v := req.Field("functions"); v.Given() {
		return schema.InvalidValue("functions", "'functions' cannot be sent to this backend; use 'tools'.")
	}
	if v := req.Field("logit_bias"); v.Given() && !v.Empty() {
		return schema.InvalidValue("logit_bias", "'logit_bias' cannot be sent to this backend.")
	}
	if format := req.Field("response_format"); format.Given() {
		switch string(format.Get("type").Text()) {
		case "text", "json_object", "json_schema":
		default:
			return schema.InvalidValue("response_format", "'response_format.type' must be text, json_object or json_schema for this backend.")
		}
	}
	if _, err := geminiEffort(req); err != nil {
		return err
	}
	var ignored geminiObject
	if err := fillGeminiCount(&ignored, req); err != nil {
		return err
	}
	return fillGeminiSeed(&ignored, req)
}

// addGeminiExtensions adds what callers say in the backend's own words, in
// extra_body or, as some clients put it, beside the other fields.
func addGeminiExtensions(body, config *geminiObject, req *schema.Request) {
	root := req.Body.Root()
	extra := root.Get("extra_body")
	for m := root.First(); m.Kind() != jsonscan.Absent; m = m.Next() {
		placeGeminiMember(body, config, m, false)
	}
	for m := extra.First(); m.Kind() != jsonscan.Absent; m = m.Next() {
		placeGeminiMember(body, config, m, true)
	}
	// Google's own OpenAI surface takes these in an object of this name.
	if google := req.Field("google"); google.Kind() == jsonscan.Object {
		var doc jsonscan.Document
		if doc.Parse(google.Raw()) == nil {
			config.addField("thinkingConfig", doc.Root().Get("thinking_config"))
			body.addField("cachedContent", doc.Root().Get("cached_content"))
		}
	}
}

// placeGeminiMember puts one member where the dialect has it. Only extra_body
// may hold members that nobody here knows: they are meant for the backend.
func placeGeminiMember(body, config *geminiObject, m jsonscan.Value, own bool) {
	if !m.Given() || isUnifiedField(string(m.Key())) {
		return
	}
	name := lowerCamel(string(m.Key()))
	switch name {
	case "generationConfig":
		for inner := m.First(); inner.Kind() != jsonscan.Absent; inner = inner.Next() {
			config.addField(lowerCamel(string(inner.Key())), inner)
		}
	case "toolConfig":
		// A choice of tools that was made in the unified way is part of it already.
		body.add("toolConfig", m.Raw())
	case "safetySettings", "cachedContent", "labels":
		body.add(name, m.Raw())
	case "contents", "systemInstruction":
		// The messages are the only conversation.
	case "topK", "topP", "maxOutputTokens", "stopSequences", "candidateCount", "presencePenalty",
		"frequencyPenalty", "responseMimeType", "responseSchema", "responseJsonSchema", "responseModalities",
		"responseLogprobs", "thinkingConfig", "speechConfig", "imageConfig", "mediaResolution",
		"audioTimestamp", "enableEnhancedCivicAnswers", "routingConfig", "modelSelectionConfig":
		config.add(name, m.Raw())
	default:
		if own {
			body.add(string(m.Key()), m.Raw())
		}
	}
}

// isUnifiedField lists the fields that are translated elsewhere, or that have
// no meaning for the backend and whose absence changes no answer.
func isUnifiedField(name string) bool {
	switch name {
	case "model", "messages", "stream", "stream_options", "extra_body", "google", "user",
		"max_tokens", "max_completion_tokens", "temperature", "top_p", "top_k", "n", "stop", "seed",
		"presence_penalty", "frequency_penalty", "logprobs", "top_logprobs", "logit_bias",
		"response_format", "tools", "tool_choice", "parallel_tool_calls", "functions", "function_call",
		"reasoning_effort", "modalities", "audio", "store", "metadata", "service_tier", "prediction",
		"safety_identifier", "prompt_cache_key", "prompt_cache_retention", "verbosity", "web_search_options":
		return true
	}
	return false
}

// lowerCamel spells a name the way the dialect documents it; the backend reads
// names with underscores as well.
func lowerCamel(name string) string {
	head, rest, more := strings.Cut(name, "_")
	if !more {
		return name
	}
	var spelled strings.Builder
	spelled.WriteString(head)
	for more && rest != "" {
		var word string
		word, rest, more = strings.Cut(rest, "_")
		if word != "" {
			spelled.WriteString(strings.ToUpper(word[:1]))
			spelled.WriteString(word[1:])
		}
	}
	return spelled.String()
}
