package clients_test

import (
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
)

const prompt = "Say something about patch bays."

func newClient(options ...option.RequestOption) openai.Client {
	return openai.NewClient(append([]option.RequestOption{option.WithBaseURL(base), option.WithAPIKey("dummy")}, options...)...)
}

func ask(model, text string) openai.ChatCompletionNewParams {
	return openai.ChatCompletionNewParams{
		Model:    model,
		Messages: []openai.ChatCompletionMessageParamUnion{openai.UserMessage(text)},
	}
}

func TestChat(t *testing.T) {
	client := newClient()
	reply, err := client.Chat.Completions.New(limited(t), ask("demo-chat", prompt))
	if err != nil {
		t.Fatal(err)
	}
	if reply.Model != "demo-chat" {
		t.Errorf("model %q, want the name that was asked for", reply.Model)
	}
	if len(reply.Choices) != 1 || reply.Choices[0].Message.Content == "" || reply.Choices[0].FinishReason != "stop" {
		t.Errorf("choices: %+v", reply.Choices)
	}
	if u := reply.Usage; u.PromptTokens <= 0 || u.CompletionTokens <= 0 || u.TotalTokens != u.PromptTokens+u.CompletionTokens {
		t.Errorf("usage: %+v", u)
	}
}

func TestStreamedChatEqualsPlain(t *testing.T) {
	client := newClient()
	plain, err := client.Chat.Completions.New(limited(t), ask("demo-chat", prompt))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name  string
		usage bool
	}{{"with usage", true}, {"without usage", false}} {
		t.Run(c.name, func(t *testing.T) {
			params := ask("demo-chat", prompt)
			if c.usage {
				params.StreamOptions.IncludeUsage = openai.Bool(true)
			}
			stream := client.Chat.Completions.NewStreaming(limited(t), params)
			defer stream.Close()
			var whole openai.ChatCompletionAccumulator
			chunks, usages := 0, 0
			for stream.Next() {
				chunk := stream.Current()
				if !whole.AddChunk(chunk) {
					t.Fatalf("chunk does not fit the others: %s", chunk.RawJSON())
				}
				chunks++
				if chunk.JSON.Usage.Valid() {
					usages++
				}
			}
			if err := stream.Err(); err != nil {
				t.Fatal(err)
			}
			if chunks < 3 {
				t.Errorf("%d chunks: that is no stream", chunks)
			}
			if len(whole.Choices) != 1 || anyBackend(whole.Choices[0].Message.Content) != anyBackend(plain.Choices[0].Message.Content) || whole.Choices[0].FinishReason != "stop" {
				t.Errorf("streamed %+v\nplain %+v", whole.Choices, plain.Choices)
			}
			if want := map[bool]int{true: 1}[c.usage]; usages != want {
				t.Errorf("%d chunks with usage, want %d", usages, want)
			}
			if c.usage && whole.Usage.TotalTokens != plain.Usage.TotalTokens {
				t.Errorf("streamed usage %+v, plain %+v", whole.Usage, plain.Usage)
			}
		})
	}
}

func withTool() openai.ChatCompletionNewParams {
	params := ask("demo-chat", "What is the weather in Oslo? Please use the tool.")
	params.Tools = []openai.ChatCompletionToolUnionParam{openai.ChatCompletionFunctionTool(openai.FunctionDefinitionParam{
		Name: "get_weather",
		Parameters: openai.FunctionParameters{
			"type":       "object",
			"properties": map[string]any{"city": map[string]any{"type": "string"}},
			"required":   []string{"city"},
		},
	})}
	return params
}

func checkToolCall(t *testing.T, choices []openai.ChatCompletionChoice) {
	t.Helper()
	if len(choices) != 1 || len(choices[0].Message.ToolCalls) != 1 || choices[0].FinishReason != "tool_calls" {
		t.Fatalf("want one tool call: %+v", choices)
	}
	call := choices[0].Message.ToolCalls[0]
	if call.ID == "" || call.Function.Name != "get_weather" {
		t.Errorf("id %q, function %q", call.ID, call.Function.Name)
	}
	var arguments map[string]any
	if err := json.Unmarshal([]byte(call.Function.Arguments), &arguments); err != nil {
		t.Errorf("arguments %q: %v", call.Function.Arguments, err)
	}
}

func TestToolCall(t *testing.T) {
	client := newClient()
	reply, err := client.Chat.Completions.New(limited(t), withTool())
	if err != nil {
		t.Fatal(err)
	}
	checkToolCall(t, reply.Choices)
}

func TestStreamedToolCall(t *testing.T) {
	client := newClient()
	stream := client.Chat.Completions.NewStreaming(limited(t), withTool())
	defer stream.Close()
	var whole openai.ChatCompletionAccumulator
	for stream.Next() {
		whole.AddChunk(stream.Current())
	}
	if err := stream.Err(); err != nil {
		t.Fatal(err)
	}
	checkToolCall(t, whole.Choices)
}

func TestCutStreamIsAnError(t *testing.T) {
	client := newClient()
	stream := client.Chat.Completions.NewStreaming(limited(t), ask("demo-cut", prompt))
	defer stream.Close()
	text := ""
	for stream.Next() {
		for _, choice := range stream.Current().Choices {
			text += choice.Delta.Content
		}
	}
	if stream.Err() == nil {
		t.Error("a stream that died midway looks complete")
	}
	if text == "" {
		t.Error("what came before the cut is lost")
	}
}

func TestModels(t *testing.T) {
	client := newClient()
	page, err := client.Models.List(limited(t))
	if err != nil {
		t.Fatal(err)
	}
	var ids []string
	for _, model := range page.Data {
		ids = append(ids, model.ID)
	}
	for _, want := range []string{"demo-chat", "demo-slow", "demo-flaky", "demo-cut", "demo-hang", "demo-down"} {
		if n := len(slices.DeleteFunc(slices.Clone(ids), func(id string) bool { return id != want })); n != 1 {
			t.Errorf("%s is listed %d times in %v", want, n, ids)
		}
	}
	model, err := client.Models.Get(limited(t), "demo-chat")
	if err != nil || model.ID != "demo-chat" {
		t.Errorf("get: %+v, %v", model, err)
	}
	if _, err := client.Models.Get(limited(t), "org/no-such-model:7b"); statusOf(err) != http.StatusNotFound {
		t.Errorf("get of an unknown model: %v", err)
	}
}

func statusOf(err error) int {
	var failure *openai.Error
	if errors.As(err, &failure) {
		return failure.StatusCode
	}
	return 0
}

// counter counts the attempts that leave the client.
type counter struct{ attempts atomic.Int32 }

func (c *counter) RoundTrip(r *http.Request) (*http.Response, error) {
	c.attempts.Add(1)
	return http.DefaultTransport.RoundTrip(r) //nolint:forbidigo // the client's own default
}

func TestErrors(t *testing.T) {
	badTemperature := ask("demo-chat", prompt)
	badTemperature.Temperature = openai.Float(5)
	for _, c := range []struct {
		name              string
		params            openai.ChatCompletionNewParams
		status            int
		kind, code, param string
		message           string
	}{
		{"unknown model", ask("demo-chta", prompt), http.StatusServiceUnavailable, "service_unavailable", "service_unavailable", "", "demo-chat"},
		{"bad temperature", badTemperature, http.StatusBadRequest, "invalid_request_error", "invalid_value", "temperature", "temperature"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var wire counter
			client := newClient(option.WithHTTPClient(&http.Client{Transport: &wire}))
			_, err := client.Chat.Completions.New(limited(t), c.params)
			var failure *openai.Error
			if !errors.As(err, &failure) {
				t.Fatalf("want an API error, got %v", err)
			}
			if failure.StatusCode != c.status || failure.Type != c.kind || failure.Code != c.code || failure.Param != c.param {
				t.Errorf("status %d: %s", failure.StatusCode, failure.RawJSON())
			}
			if !strings.Contains(failure.Message, c.message) {
				t.Errorf("message %q does not name %q", failure.Message, c.message)
			}
			if failure.Response.Header.Get("x-request-id") == "" {
				t.Error("no x-request-id")
			}
			if n := wire.attempts.Load(); n != 1 {
				t.Errorf("%d attempts at what a retry cannot mend", n)
			}
		})
	}
}
