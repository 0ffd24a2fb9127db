package clients_test

import (
	"strings"
	"testing"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/responses"
)

// sameBackend makes the answers of the demo's two backends comparable.
func sameBackend(text string) string { return strings.ReplaceAll(text, "I am B,", "I am A,") }

func TestResponsesOfEveryDialect(t *testing.T) {
	t.Parallel()
	client := newClient()
	for _, model := range dialectModels {
		t.Run(model, func(t *testing.T) {
			t.Parallel()
			params := responses.ResponseNewParams{Model: model, Input: responses.ResponseNewParamsInputUnion{OfString: openai.String(prompt)}}
			whole, err := client.Responses.New(limited(t), params)
			if err != nil {
				t.Fatal(err)
			}
			if whole.Model != model || whole.Status != responses.ResponseStatusCompleted || whole.OutputText() == "" || whole.Usage.TotalTokens <= 0 {
				t.Errorf("response %s", whole.RawJSON())
			}
			var text strings.Builder
			var last responses.ResponseStreamEventUnion
			stream := client.Responses.NewStreaming(limited(t), params)
			for stream.Next() {
				last = stream.Current()
				if last.Type == "response.output_text.delta" {
					text.WriteString(last.Delta)
				}
			}
			if err := stream.Err(); err != nil {
				t.Fatal(err)
			}
			if last.Type != "response.completed" || sameBackend(text.String()) != sameBackend(whole.OutputText()) || last.Response.Usage.TotalTokens != whole.Usage.TotalTokens {
				t.Errorf("streamed %q, whole %q, last event %s", text.String(), whole.OutputText(), last.RawJSON())
			}
		})
	}
}

func TestCompletions(t *testing.T) {
	t.Parallel()
	client := newClient()
	for _, model := range []string{"demo-chat", "demo-ollama"} {
		t.Run(model, func(t *testing.T) {
			t.Parallel()
			params := openai.CompletionNewParams{
				Model: openai.CompletionNewParamsModel(model), Prompt: openai.CompletionNewParamsPromptUnion{OfString: openai.String(prompt)}, Suffix: openai.String("."),
			}
			whole, err := client.Completions.New(limited(t), params)
			if err != nil {
				t.Fatal(err)
			}
			if whole.Model != model || len(whole.Choices) != 1 || whole.Choices[0].Text == "" || whole.Choices[0].FinishReason != openai.CompletionChoiceFinishReasonStop {
				t.Errorf("completion %s", whole.RawJSON())
			}
			var text strings.Builder
			stream := client.Completions.NewStreaming(limited(t), params)
			for stream.Next() {
				for _, choice := range stream.Current().Choices {
					text.WriteString(choice.Text)
				}
			}
			if err := stream.Err(); err != nil {
				t.Fatal(err)
			}
			if sameBackend(text.String()) != sameBackend(whole.Choices[0].Text) {
				t.Errorf("streamed %q, whole %q", text.String(), whole.Choices[0].Text)
			}
		})
	}
}
