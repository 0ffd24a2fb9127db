// Package terminal shows a running gateway on a terminal: the calls as they end, and a
// screen with traffic, instances and breakers. It reads the live feed.
package terminal

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/patchbay-ai/patchbay/internal/request/waiting"
	"github.com/patchbay-ai/patchbay/internal/serve/live"
)

// Event is one event of the live feed; one of its members is set.
type Event struct {
	Snapshot *Snapshot
	Change   *live.Change
	Call     *Call
	Dropped  *Dropped
	// Data is the event in the bytes of the feed.
	Data []byte
}

// Snapshot is the state of a gateway at one moment.
type Snapshot struct {
	Time          time.Time     `json:"time"`
	StartedAt     time.Time     `json:"startedAt"`
	ConfigVersion int           `json:"configVersion"`
	Degradation   string        `json:"degradation"`
	Total         live.Activity `json:"total"`
	Services      []Service     `json:"services"`
	Instances     []Instance    `json:"instances"`
}

// Service is a service type in a snapshot.
type Service struct {
	Service string `json:"service"`
	live.Activity
	InFlight    int64 `json:"inFlight"`
	QueueLength int   `json:"queueLength"`
}

// Instance is an instance in a snapshot.
type Instance struct {
	Service string `json:"service"`
	Model   string `json:"model"`
	ID      string `json:"id"`
	URL     string `json:"url"`
	live.Activity
	Health      string `json:"health"`
	HealthError string `json:"healthError"`
	Enabled     bool   `json:"enabled"`
	InFlight    int64  `json:"inFlight"`
	Breaker     struct {
		State        string     `json:"state"`
		Forced       bool       `json:"forced"`
		FailureCount int        `json:"failureCount"`
		NextRetry    *time.Time `json:"nextRetry"`
	} `json:"breaker"`
}

// Call is a call that has ended.
type Call struct {
	RequestID  string    `json:"requestId"`
	Time       time.Time `json:"time"`
	Service    string    `json:"service"`
	Model      string    `json:"model"`
	Asked      string    `json:"asked"` // the name that the client wrote; it may be absent
	Instance   string    `json:"instance"`
	KeyID      string    `json:"keyId"`
	Status     string    `json:"status"`
	HTTPStatus int       `json:"httpStatus"`
	ErrorCode  string    `json:"errorCode"`
	ClientGone bool      `json:"clientGone"`
	DurationMs float64   `json:"durationMs"`
	FirstMs    float64   `json:"timeToFirstTokenMs"`
	Usage      *struct {
		PromptTokens     int64 `json:"promptTokens"`
		CompletionTokens int64 `json:"completionTokens"`
	} `json:"usage"`
	Attempts int `json:"attempts"`
}

// Failed reports whether the caller did not get an answer.
func (c *Call) Failed() bool { return c.ErrorCode != "" || c.HTTPStatus >= 400 }

// Dropped says how many events of a topic were left out.
type Dropped struct {
	Topic string `json:"topic"`
	Count int64  `json:"count"`
}

// Open opens the feed after the event with an id, which is empty at the start.
type Open func(ctx context.Context, lastID string) (io.ReadCloser, error)

// pause is how long to wait before the feed is opened again.
const pause = time.Second

// Follow passes on the events of a feed until on returns an error or the context ends. A
// feed that ends, because the gateway is restarted, is opened again; lost receives the
// reason. The error of the first opening is returned.
func Follow(ctx context.Context, open Open, on func(Event) error, lost func(error)) error {
	var lastID string
	for first := true; ; first = false {
		body, err := open(ctx, lastID)
		if err != nil && first {
			return err
		}
		if err == nil {
			hasEnded := false
			hasEnded, err = readFeed(body, &lastID, on)
			_ = body.Close() // it was only read
			if hasEnded {
				return err
			}
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		lost(err)
		if waiting.Pause(ctx, pause) != nil {
			return ctx.Err()
		}
	}
}

// ErrStop is returned by the callback of Follow to end it without an error.
var ErrStop = errors.New("enough events")

// readFeed passes on the events of an open feed until on returns an error, which ends Follow, or the feed ends.
func readFeed(body io.Reader, lastID *string, on func(Event) error) (hasEnded bool, err error) {
	lines := bufio.NewReaderSize(body, 64<<10)
	var name, id string
	var data []byte
	for {
		line, err := lines.ReadString('\n')
		if err != nil {
			return false, errors.New("the gateway ended the feed")
		}
		line = strings.TrimRight(line, "\r\n")
		field, value, _ := strings.Cut(line, ":")
		value = strings.TrimPrefix(value, " ")
		switch {
		case line == "" && name != "":
			err := deliver(name, data, on)
			if errors.Is(err, ErrStop) {
				return true, nil
			}
			if err != nil {
				return true, err
			}
			*lastID, name, data = id, "", nil
		case field == "event":
			name = value
		case field == "id":
			id = value
		case field == "data":
			data = append(data, value...)
		}
	}
}

// deliver decodes an event and passes it on. Members and events of a newer gateway are
// left out.
func deliver(name string, data []byte, on func(Event) error) error {
	event := Event{Data: data}
	var into any
	switch name {
	case "snapshot":
		event.Snapshot = new(Snapshot)
		into = event.Snapshot
	case "change":
		event.Change = new(live.Change)
		into = event.Change
	case "call":
		event.Call = new(Call)
		into = event.Call
	case "dropped":
		event.Dropped = new(Dropped)
		into = event.Dropped
	default:
		return nil
	}
	if err := json.Unmarshal(data, into); err != nil {
		return fmt.Errorf("the feed has a %s that cannot be read: %w", name, err)
	}
	return on(event)
}
