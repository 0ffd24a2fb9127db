package gatewaytest

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// EventReader parses a stream strictly: every event is one line "data: ..." and an
// empty line, and comments are not part of events.
type EventReader struct{ From *bufio.Reader }

// Next returns the data of the next event, or a comment with its colon.
func (e *EventReader) Next() (string, error) {
	line, err := e.From.ReadString('\n')
	if err != nil {
		if line != "" {
			err = fmt.Errorf("half a line %q: %w", line, err)
		}
		return "", err
	}
	empty, err := e.From.ReadString('\n')
	if err != nil || empty != "\n" {
		return "", fmt.Errorf("after %q came %q: %w", line, empty, err)
	}
	line = strings.TrimSuffix(line, "\n")
	if data, ok := strings.CutPrefix(line, "data: "); ok {
		return data, nil
	}
	if strings.HasPrefix(line, ":") {
		return line, nil
	}
	return "", fmt.Errorf("neither event nor comment: %q", line)
}

// Rest returns the remaining events of the stream, and how it ended if not cleanly.
func (e *EventReader) Rest() (events []string, err error) {
	for {
		event, err := e.Next()
		if errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
			return events, nil
		}
		if err != nil {
			return events, err
		}
		events = append(events, event)
	}
}

// EventsOf parses the body of a stream.
func EventsOf(t *testing.T, body string) []string {
	t.Helper()
	events, err := (&EventReader{bufio.NewReader(strings.NewReader(body))}).Rest()
	if err != nil {
		t.Fatal(err)
	}
	return events
}

// Chunk is the part of a chunk that tests look at.
type Chunk struct {
	ID      string `json:"id"`
	Object  string `json:"object"`
	Model   string `json:"model"`
	Choices []struct {
		Index int `json:"index"`
		Delta struct {
			Role      string           `json:"role"`
			Content   string           `json:"content"`
			ToolCalls []jsontext.Value `json:"tool_calls"`
		} `json:"delta"`
		FinishReason *string `json:"finish_reason"`
	} `json:"choices"`
	Usage jsontext.Value `json:"usage"`
}

// DecodeChunk decodes an event of a chat stream.
func DecodeChunk(t *testing.T, event string) Chunk {
	t.Helper()
	var c Chunk
	if err := json.Unmarshal([]byte(event), &c); err != nil {
		t.Fatalf("%v in event %s", err, event)
	}
	return c
}

// TextOf joins the texts of the chunks among the events.
func TextOf(t *testing.T, events []string) string {
	t.Helper()
	var text strings.Builder
	for _, event := range events {
		if !strings.HasPrefix(event, "{") || strings.HasPrefix(event, `{"error"`) {
			continue
		}
		for _, choice := range DecodeChunk(t, event).Choices {
			text.WriteString(choice.Delta.Content)
		}
	}
	return text.String()
}
