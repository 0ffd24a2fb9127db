package watch

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"time"

	"github.com/patchbay-ai/patchbay/internal/hosts/transport"
	"github.com/patchbay-ai/patchbay/internal/plain/say"
	"github.com/patchbay-ai/patchbay/internal/request/outgoing"
	"github.com/patchbay-ai/patchbay/internal/request/waiting"
	"github.com/patchbay-ai/patchbay/internal/wings/alerts"
)

const (
	// maxQueued is how many alerts wait for a webhook. The oldest gives way to a new one.
	maxQueued = 64
	// sendTimeout bounds one attempt.
	sendTimeout = 10 * time.Second
)

// retries are the pauses between the attempts to deliver an alert.
func retries() []time.Duration {
	return []time.Duration{5 * time.Second, 30 * time.Second, 2 * time.Minute, 8 * time.Minute}
}

// post is outgoing.Client.Send.
type post func(ctx context.Context, to, mediaType string, body []byte, header map[string]string) error

// sender delivers alerts to one webhook, one after the other, so that one that hangs delays no
// other.
type sender struct {
	name    string
	hook    alerts.Webhook
	address string // what hook.URL leads to on this machine
	post    post
	queue   chan alerts.Message
	stop    context.CancelFunc

	mu    sync.Mutex
	state delivery
}

// delivery is how alerts reached a webhook.
type delivery struct {
	Sent    int64        `json:"sent" doc:"Alerts that the receiver took, since the start or the last change."`
	Failed  int64        `json:"failed" doc:"Alerts that were given up, because every attempt failed."`
	Dropped int64        `json:"dropped" doc:"Alerts that gave way to newer ones, because too many waited."`
	LastAt  *time.Time   `json:"lastAt" doc:"When the receiver last took one; null if it never did."`
	Fault   say.Sentence `json:"fault,omitzero" doc:"Why the last attempt failed; left out if it did not."`
}

// add lets an alert wait to be sent. It never blocks.
func (s *sender) add(m alerts.Message) {
	for {
		select {
		case s.queue <- m:
			return
		default:
		}
		select {
		case <-s.queue:
			s.note(func(d *delivery) { d.Dropped++ })
		default:
		}
	}
}

// run sends alerts until ctx ends. It returns why an alert was given up to a function.
func (s *sender) run(ctx context.Context, gaveUp func(webhook string, why say.Sentence)) {
	for {
		select {
		case <-ctx.Done():
			return
		case m := <-s.queue:
			fault := s.deliver(ctx, m)
			if ctx.Err() != nil {
				return
			}
			s.note(func(d *delivery) {
				if fault.Is() {
					d.Failed++
				} else {
					d.Sent++
				}
			})
			if fault.Is() {
				gaveUp(s.name, fault)
			}
		}
	}
}

// deliver tries to send an alert until the receiver takes it, refuses it for good, or all
// attempts are used up. It returns the last fault, none where the alert was taken.
func (s *sender) deliver(ctx context.Context, m alerts.Message) say.Sentence {
	body := m.Body(s.hook.Format)
	pauses := retries()
	for {
		fault, isFinal := s.attempt(ctx, body)
		if !fault.Is() || isFinal || len(pauses) == 0 {
			return fault
		}
		if waiting.Pause(ctx, pauses[0]) != nil {
			return fault
		}
		pauses = pauses[1:]
	}
}

// attempt sends a body once. It returns the fault, and whether another attempt is of no use.
func (s *sender) attempt(ctx context.Context, body []byte) (fault say.Sentence, isFinal bool) {
	bounded, cancel := context.WithTimeout(ctx, sendTimeout)
	defer cancel()
	if err := s.post(bounded, s.address, "application/json", body, nil); err != nil {
		refusal, isRefused := errors.AsType[*outgoing.StatusError](err)
		switch cause := transport.CauseOf(err).Said(); {
		case isRefused && refusal.To != "":
			fault = say.New("alert.unreached", "cause", refusal)
		case isRefused:
			fault = say.New("alert.refused", "status", refusal.Status)
		case cause.Is():
			fault = say.New("alert.unreached", "cause", cause)
		default:
			fault = say.New("alert.unsent")
		}
		isFinal = isRefused && refusal.Status < http.StatusInternalServerError &&
			refusal.Status != http.StatusRequestTimeout && refusal.Status != http.StatusTooManyRequests
	}
	s.note(func(d *delivery) {
		d.Fault = fault
		if !fault.Is() {
			now := time.Now().UTC()
			d.LastAt = &now
		}
	})
	return fault, isFinal
}

func (s *sender) note(change func(*delivery)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change(&s.state)
}

func (s *sender) status() delivery {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.state
}
