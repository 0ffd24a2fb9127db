package clients_test

import (
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/anthropics/anthropic-sdk-go"
	"github.com/anthropics/anthropic-sdk-go/option"
)

func TestMessagesOfEveryDialect(t *testing.T) {
	t.Parallel()
	client := anthropic.NewClient(option.WithBaseURL(strings.TrimSuffix(base, "/v1")), option.WithAPIKey("any"), option.WithMaxRetries(0))
	for _, model := range dialectModels {
		t.Run(model, func(t *testing.T) {
			t.Parallel()
			params := anthropic.MessageNewParams{
				Model: anthropic.Model(model), MaxTokens: 200,
				Messages: []anthropic.MessageParam{anthropic.NewUserMessage(anthropic.NewTextBlock(prompt))},
			}
			whole, err := client.Messages.New(limited(t), params)
			if err != nil {
				t.Fatal(err)
			}
			if string(whole.Model) != model || whole.StopReason != anthropic.StopReasonEndTurn || len(whole.Content) != 1 || whole.Usage.InputTokens <= 0 {
				t.Errorf("message %s", whole.RawJSON())
			}
			var streamed anthropic.Message
			stream := client.Messages.NewStreaming(limited(t), params)
			for stream.Next() {
				if err := streamed.Accumulate(stream.Current()); err != nil {
					t.Fatal(err)
				}
			}
			if err := stream.Err(); err != nil {
				t.Fatal(err)
			}
			if got, want := sameBackend(streamed.Content[0].Text), sameBackend(whole.Content[0].Text); got != want || streamed.Usage.OutputTokens != whole.Usage.OutputTokens {
				t.Errorf("streamed %q (%d tokens), whole %q (%d tokens)", got, streamed.Usage.OutputTokens, want, whole.Usage.OutputTokens)
			}
		})
	}
	_, err := client.Messages.New(limited(t), anthropic.MessageNewParams{
		Model: "no-such-model", MaxTokens: 1, Messages: []anthropic.MessageParam{anthropic.NewUserMessage(anthropic.NewTextBlock("hi"))},
	})
	var refused *anthropic.Error
	if !errors.As(err, &refused) || refused.StatusCode != http.StatusServiceUnavailable || refused.RequestID == "" {
		t.Errorf("an unknown model: %v", err)
	}
}
