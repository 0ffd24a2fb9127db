package redisfleet

import (
	"errors"
	"log/slog"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/patchbay-ai/patchbay/internal/hosts/fleet"
)

// newQuiet returns an exchange that is not connected, and its log.
func newQuiet() (*Exchange, *strings.Builder) {
	log := new(strings.Builder)
	x := New(Options{
		Fleet: fleet.New(fleet.Options{Gateway: "self"}, time.Unix(0, 0)), Gateway: "self", Prefix: "patchbay",
		Log: slog.New(slog.NewTextHandler(log, nil)),
	})
	return x, log
}

func second(n int) time.Time { return time.Unix(int64(n), 0) }

// TestGatewaysThatAreGoneAreNotCounted, and no more are heard than there is room for.
func TestGatewaysThatAreGoneAreNotCounted(t *testing.T) {
	x, _ := newQuiet()
	for n := range maxOthers + 5 {
		x.hear(string(x.codec.wrap("gateway-"+strconv.Itoa(n), nil)), second(n/10))
	}
	if s := x.Stats(); s.Others != maxOthers || s.Malformed != 5 {
		t.Errorf("%+v", s)
	}
	if _, err := x.write(nil, second(40)); err != nil {
		t.Fatal(err)
	}
	if s := x.Stats(); s.Others != maxOthers-110 { // ten a second were heard, up to second 10
		t.Errorf("%d gateways are counted that were heard within 30 s", s.Others)
	}
}

// TestHellos are sent where nothing is new: at once, every ten seconds, and to a gateway that
// was not heard before.
func TestHellos(t *testing.T) {
	x, _ := newQuiet()
	for _, step := range []struct {
		at          int
		hears       string
		isPublished bool
	}{{0, "", true}, {1, "", false}, {9, "", false}, {10, "", true}, {11, "other", true}, {12, "other", false}, {20, "", false}, {21, "", true}} {
		if step.hears != "" {
			x.hear(string(x.codec.wrap(step.hears, nil)), second(step.at))
		}
		envelope, err := x.write(nil, second(step.at))
		if (envelope != nil) != step.isPublished || err != nil {
			t.Errorf("after %d s: %d bytes, %v", step.at, len(envelope), err)
		}
		if envelope != nil {
			x.hear(string(envelope), second(step.at))
		}
	}
}

// TestGatewayThatDoesNotHearItselfBeginsAnew: the first of its messages that did not come
// back counts, however many it has sent since.
func TestGatewayThatDoesNotHearItselfBeginsAnew(t *testing.T) {
	x, _ := newQuiet()
	for n := range 6 {
		_, err := x.write([]byte{1, 0}, second(n))
		if isDeaf := errors.Is(err, errDeaf); isDeaf != (n == 5) {
			t.Errorf("after %d s: %v", n, err)
		}
	}
	x.leave()
	envelope, err := x.write([]byte{1, 0}, second(6))
	if err != nil {
		t.Fatal(err)
	}
	x.hear(string(envelope), second(7))
	if _, err := x.write([]byte{1, 0}, second(60)); err != nil {
		t.Errorf("although it hears itself: %v", err)
	}
}

// TestLastingDisagreementIsLoggedOnce: messages of another secret make a gateway look for
// the secret every ten seconds, and say what to do if that does not help.
func TestLastingDisagreementIsLoggedOnce(t *testing.T) {
	x, log := newQuiet()
	stranger := newCodec(&fleet.Secret{1})
	looked := 0
	for n := range 100 {
		x.hear(string(stranger.wrap("other", nil)), second(n))
		if x.isToAgree(second(n)) {
			looked++
			x.agreed = second(n)
		}
		if n == 15 && log.Len() > 0 {
			t.Errorf("it is logged at once: %s", log)
		}
	}
	if s := x.Stats(); looked != 10 || s.Foreign != 100 || strings.Count(log.String(), "security.master-key") != 1 {
		t.Errorf("looked %d times, %+v, %s", looked, s, log)
	}
	x.isDoubted = false
	if x.isToAgree(second(200)) || x.disagreed != 0 {
		t.Error("it looks for the secret although everybody has the same")
	}
}
