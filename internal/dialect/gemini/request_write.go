package gemini

import (
	"strings"

	"github.com/patchbay-ai/patchbay/internal/request/chat"
	"github.com/patchbay-ai/patchbay/internal/request/jsonscan"
	"github.com/patchbay-ai/patchbay/internal/request/jsonwrite"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
)

// writeBody writes the body of a call.
func writeBody(req *schema.Request, model string) ([]byte, error) {
	if err := refuseChat(req); err != nil {
		return nil, err
	}
	asked, err := req.Chat()
	if err != nil {
		return nil, err
	}
	var body, config jsonwrite.Members
	if err := addContents(&body, asked.Messages, model); err != nil {
		return nil, err
	}
	var schemas schemaBudget
	if err := addTools(&body, asked, &schemas); err != nil {
		return nil, err
	}
	if err := fillConfig(&config, asked, model, &schemas); err != nil {
		return nil, err
	}
	addExtensions(&body, &config, &asked.Settings)
	if !config.Empty() {
		body.Add("generationConfig", config.Object())
	}
	return body.Object(), nil
}

// addExtensions adds the caller's settings in the backend's own words, from extra_body
// or, as some clients put them, from beside the other fields.
func addExtensions(body, config *jsonwrite.Members, s *chat.Settings) {
	for m, isExtra := range s.Others() {
		placeMember(body, config, m, isExtra)
	}
	// Google's own OpenAI surface takes these in an object of this name.
	if google := s.Other("google"); google.Kind() == jsonscan.Object {
		var doc jsonscan.Document
		if doc.Parse(google.Raw()) == nil {
			config.AddField("thinkingConfig", doc.Root().Get("thinking_config"))
			body.AddField("cachedContent", doc.Root().Get("cached_content"))
		}
	}
}

// placeMember puts one member where the dialect has it. Only extra_body
// may hold unknown members: they are meant for the backend.
func placeMember(body, config *jsonwrite.Members, m jsonscan.Value, own bool) {
	if isUnifiedField(string(m.Key())) {
		return
	}
	name := lowerCamel(string(m.Key()))
	switch name {
	case "generationConfig":
		for inner := range m.All() {
			config.AddField(lowerCamel(string(inner.Key())), inner)
		}
	case "toolConfig":
		// A choice of tools that was made in the unified way is part of it already.
		body.Add("toolConfig", m.Raw())
	case "safetySettings", "cachedContent", "labels":
		body.Add(name, m.Raw())
	case "contents", "systemInstruction":
		// The messages are the only conversation.
	case "topK", "topP", "maxOutputTokens", "stopSequences", "candidateCount", "presencePenalty",
		"frequencyPenalty", "responseMimeType", "responseSchema", "responseJsonSchema", "responseModalities",
		"responseLogprobs", "thinkingConfig", "speechConfig", "imageConfig", "mediaResolution",
		"audioTimestamp", "enableEnhancedCivicAnswers", "routingConfig", "modelSelectionConfig":
		config.Add(name, m.Raw())
	default:
		if own {
			body.Add(string(m.Key()), m.Raw())
		}
	}
}

// isUnifiedField lists the fields that are translated elsewhere, and the fields that
// mean nothing to the backend and change no answer by their absence.
func isUnifiedField(name string) bool {
	switch name {
	case "google", "logit_bias", "functions", "function_call", "modalities", "audio", "store", "metadata",
		"service_tier",
		"prediction", "safety_identifier", "prompt_cache_key", "prompt_cache_retention", "prompt_cache_options",
		"moderation",
		"web_search_options":
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
