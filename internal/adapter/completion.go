package adapter

import (
	"errors"
	"fmt"
	"io"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/patchbay-ai/patchbay/internal/schema"
)

// CompletionEvents makes a stream of a whole completion, for a backend that
// answers at once although a stream was asked. The body is a unified
// completion.
func CompletionEvents(req *schema.Request, body []byte, usage schema.Usage) (Events, error) {
	var whole struct {
		ID                jsontext.Value              `json:"id"`
		Created           jsontext.Value              `json:"created"`
		Model             jsontext.Value              `json:"model"`
		SystemFingerprint jsontext.Value              `json:"system_fingerprint"`
		Usage             jsontext.Value              `json:"usage"`
		Choices           []map[string]jsontext.Value `json:"choices"`
	}
	lenient := json.JoinOptions(jsontext.AllowDuplicateNames(true))
	if err := json.Unmarshal(body, &whole, lenient); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	e := &wholeEvents{usage: usage}
	chunk := func(choices any, usage jsontext.Value) error {
		data, err := json.Marshal(completionChunk{
			ID: whole.ID, Object: "chat.completion.chunk", Created: whole.Created, Model: whole.Model,
			SystemFingerprint: whole.SystemFingerprint, Choices: choices, Usage: usage,
		}, lenient)
		e.chunks = append(e.chunks, data)
		return err
	}
	for i, c := range whole.Choices {
		if c == nil {
			return nil, fmt.Errorf("%w: a choice that is null", ErrInvalid)
		}
		if c["index"] == nil {
			c["index"] = jsontext.Value(fmt.Sprint(i))
		}
		delta, err := deltaOf(c["message"])
		if err != nil {
			return nil, fmt.Errorf("%w: %w", ErrInvalid, err)
		}
		finish := c["finish_reason"]
		if finish == nil || finish.Kind() == 'n' {
			return nil, fmt.Errorf("%w: no finish_reason", ErrInvalid)
		}
		logprobs := c["logprobs"]
		first := choiceChunk{Index: c["index"], Delta: delta, Logprobs: logprobs, FinishReason: jsontext.Value("null")}
		last := choiceChunk{Index: c["index"], Delta: jsontext.Value("{}"), FinishReason: finish}
		for _, part := range []choiceChunk{first, last} {
			if err := chunk([]choiceChunk{part}, nil); err != nil {
				return nil, fmt.Errorf("%w: %w", ErrInvalid, err)
			}
		}
	}
	if req.IncludeUsage && whole.Usage != nil && whole.Usage.Kind() == '{' {
		if err := chunk([]choiceChunk{}, whole.Usage); err != nil {
			return nil, fmt.Errorf("%w: %w", ErrInvalid, err)
		}
	}
	return e, nil
}

type completionChunk struct {
	ID                jsontext.Value `json:"id,omitzero"`
	Object            string         `json:"object"`
	Created           jsontext.Value `json:"created,omitzero"`
	Model             jsontext.Value `json:"model,omitzero"`
	SystemFingerprint jsontext.Value `json:"system_fingerprint,omitzero"`
	Choices           any            `json:"choices"`
	Usage             jsontext.Value `json:"usage,omitzero"`
}

type choiceChunk struct {
	Index        jsontext.Value `json:"index"`
	Delta        jsontext.Value `json:"delta"`
	Logprobs     jsontext.Value `json:"logprobs,omitzero"`
	FinishReason jsontext.Value `json:"finish_reason"`
}

// deltaOf turns a message into a delta: tool calls get the index that chunks
// number them by.
func deltaOf(message jsontext.Value) (jsontext.Value, error) {
	var fields map[string]jsontext.Value
	if err := json.Unmarshal(message, &fields, jsontext.AllowDuplicateNames(true)); err != nil {
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
		if err := json.Unmarshal(calls, &list, jsontext.AllowDuplicateNames(true)); err != nil {
			return nil, err
		}
		for i, call := range list {
			if call == nil {
				return nil, errors.New("a tool call that is null")
			}
			call["index"] = jsontext.Value(fmt.Sprint(i))
		}
		numbered, err := json.Marshal(list, json.Deterministic(true))
		if err != nil {
			return nil, err
		}
		fields["tool_calls"] = numbered
	}
	return json.Marshal(fields, json.Deterministic(true))
}

// wholeEvents is a stream whose chunks are all there.
type wholeEvents struct {
	chunks [][]byte
	usage  schema.Usage
}

func (e *wholeEvents) Usage() schema.Usage { return e.usage }

func (e *wholeEvents) Next() ([]byte, error) {
	if len(e.chunks) == 0 {
		return nil, io.EOF
	}
	next := e.chunks[0]
	e.chunks = e.chunks[1:]
	return next, nil
}
