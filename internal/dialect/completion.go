package dialect

import (
	"errors"
	"fmt"
	"strconv"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/patchbay-ai/patchbay/internal/schema"
)

// CompletionEvents makes a stream of a whole completion, for a backend that
// answers at once although a stream was asked for. The body is a unified
// completion. Unknown members are kept: those of the completion go with the first
// chunk, those of a choice with its last.
func CompletionEvents(req *schema.Request, body []byte, usage schema.Usage) (Events, error) {
	var whole completion
	if err := json.Unmarshal(body, &whole, preserveText()); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	e := &storedEvents{usage: usage}
	chunk := completionChunk{
		ID: whole.ID, Object: "chat.completion.chunk", Created: whole.Created, Model: whole.Model,
		SystemFingerprint: whole.SystemFingerprint, Others: whole.Others,
	}
	for i, c := range whole.Choices {
		parts, err := c.chunks(i)
		if err != nil {
			return nil, fmt.Errorf("%w: %w", ErrInvalid, err)
		}
		for _, part := range parts {
			chunk.Choices = []choiceChunk{part}
			if err := e.add(chunk); err != nil {
				return nil, err
			}
			chunk.Others = nil
		}
	}
	if req.IncludeUsage && whole.Usage != nil && whole.Usage.Kind() == '{' {
		chunk.Choices, chunk.Usage = []choiceChunk{}, whole.Usage
		if err := e.add(chunk); err != nil {
			return nil, err
		}
	}
	return e, nil
}

// preserveText returns the options for reading and writing completions without
// changing them; the text was checked when it arrived.
func preserveText() json.Options {
	return json.JoinOptions(jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true), jsontext.PreserveRawStrings(true))
}

type completion struct {
	ID                jsontext.Value `json:"id"`
	Object            jsontext.Value `json:"object"`
	Created           jsontext.Value `json:"created"`
	Model             jsontext.Value `json:"model"`
	SystemFingerprint jsontext.Value `json:"system_fingerprint"`
	Usage             jsontext.Value `json:"usage"`
	Choices           []*choice      `json:"choices"`
	Others            jsontext.Value `json:",embed"`
}

type choice struct {
	Index        jsontext.Value `json:"index"`
	Message      jsontext.Value `json:"message"`
	Logprobs     jsontext.Value `json:"logprobs"`
	FinishReason jsontext.Value `json:"finish_reason"`
	Others       jsontext.Value `json:",embed"`
}

type completionChunk struct {
	ID                jsontext.Value `json:"id,omitzero"`
	Object            string         `json:"object"`
	Created           jsontext.Value `json:"created,omitzero"`
	Model             jsontext.Value `json:"model,omitzero"`
	SystemFingerprint jsontext.Value `json:"system_fingerprint,omitzero"`
	Choices           []choiceChunk  `json:"choices"`
	Usage             jsontext.Value `json:"usage,omitzero"`
	Others            jsontext.Value `json:",embed"`
}

type choiceChunk struct {
	Index        jsontext.Value `json:"index"`
	Delta        jsontext.Value `json:"delta"`
	Logprobs     jsontext.Value `json:"logprobs,omitzero"`
	FinishReason jsontext.Value `json:"finish_reason"`
	Others       jsontext.Value `json:",embed"`
}

// chunks makes the two chunks of a choice: what it says, and why it ended.
func (c *choice) chunks(position int) ([2]choiceChunk, error) {
	var parts [2]choiceChunk
	if c == nil {
		return parts, errors.New("a choice that is null")
	}
	if c.Index == nil {
		c.Index = jsontext.Value(strconv.Itoa(position))
	}
	delta, err := deltaOf(c.Message)
	if err != nil {
		return parts, err
	}
	if c.FinishReason.Kind() != '"' || len(c.FinishReason) == len(`""`) {
		return parts, errors.New("no finish_reason")
	}
	parts[0] = choiceChunk{Index: c.Index, Delta: delta, Logprobs: c.Logprobs, FinishReason: jsontext.Value("null")}
	parts[1] = choiceChunk{Index: c.Index, Delta: jsontext.Value("{}"), FinishReason: c.FinishReason, Others: c.Others}
	return parts, nil
}

// deltaOf turns a message into a delta: tool calls get the index that chunks
// number them by.
func deltaOf(message jsontext.Value) (jsontext.Value, error) {
	var fields map[string]jsontext.Value
	if err := json.Unmarshal(message, &fields, preserveText()); err != nil {
		return nil, err
	}
	if fields == nil {
		return nil, errors.New("a message that is null")
	}
	if fields["role"] == nil {
		fields["role"] = jsontext.Value(`"assistant"`)
	}
	if calls := fields["tool_calls"]; calls != nil && calls.Kind() == '[' {
		var list []map[string]jsontext.Value
		if err := json.Unmarshal(calls, &list, preserveText()); err != nil {
			return nil, err
		}
		for i, call := range list {
			if call == nil {
				return nil, errors.New("a tool call that is null")
			}
			call["index"] = jsontext.Value(strconv.Itoa(i))
		}
		numbered, err := json.Marshal(list, json.Deterministic(true), preserveText())
		if err != nil {
			return nil, err
		}
		fields["tool_calls"] = numbered
	}
	return json.Marshal(fields, json.Deterministic(true), preserveText())
}

func (e *storedEvents) add(chunk completionChunk) error {
	data, err := json.Marshal(chunk, preserveText())
	if err != nil {
		return fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	e.chunks = append(e.chunks, data)
	return nil
}
