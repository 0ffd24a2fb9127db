package clients_test

import (
	"errors"
	"io"
	"testing"

	community "github.com/sashabaranov/go-openai"
)

func newCommunityClient() *community.Client {
	config := community.DefaultConfig("dummy")
	config.BaseURL = base
	return community.NewClientWithConfig(config)
}

func askCommunity(model string) community.ChatCompletionRequest {
	return community.ChatCompletionRequest{
		Model:    model,
		Messages: []community.ChatCompletionMessage{{Role: community.ChatMessageRoleUser, Content: prompt}},
	}
}

// readCommunity returns the text of a stream and what ended it; nil is a clean end.
func readCommunity(t *testing.T, model string) (text string, err error) {
	t.Helper()
	stream, err := newCommunityClient().CreateChatCompletionStream(limited(t), askCommunity(model))
	if err != nil {
		t.Fatal(err)
	}
	defer stream.Close()
	for {
		chunk, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return text, nil
		}
		if err != nil {
			return text, err
		}
		for _, choice := range chunk.Choices {
			text += choice.Delta.Content
		}
	}
}

func TestCommunityStreamedChatEqualsPlain(t *testing.T) {
	plain, err := newCommunityClient().CreateChatCompletion(limited(t), askCommunity("demo-chat"))
	if err != nil {
		t.Fatal(err)
	}
	text, err := readCommunity(t, "demo-chat")
	if err != nil {
		t.Fatal(err)
	}
	if want := plain.Choices[0].Message.Content; anyBackend(text) != anyBackend(want) || text == "" {
		t.Errorf("streamed %q, plain %q", text, want)
	}
}

func TestCommunityCutStreamIsAnError(t *testing.T) {
	if text, err := readCommunity(t, "demo-cut"); err == nil {
		t.Errorf("a stream that died after %q looks complete", text)
	}
}
