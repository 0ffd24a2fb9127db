package terminal_test

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"github.com/patchbay-ai/patchbay/internal/wings/terminal"
)

const (
	snapshotEvent = "event: snapshot\nid: 1\ndata: {\"time\":\"2026-01-01T00:01:00Z\",\"startedAt\":\"2026-01-01T00:00:00Z\",\"configVersion\":3,\"degradation\":\"NORMAL\",\n" +
		"data: \"total\":{\"lastSecond\":{\"requests\":7},\"lastMinute\":{\"requests\":90,\"errors\":2,\"latency\":{\"p50\":12.5,\"p95\":1234}}},\"services\":[{\"service\":\"chat\",\"inFlight\":4,\"queueLength\":1}],\n" +
		"data: \"instances\":[{\"service\":\"chat\",\"model\":\"m\",\"id\":\"good@http://a\",\"health\":\"HEALTHY\",\"enabled\":true,\"lastMinute\":{\"requests\":80},\"breaker\":{\"state\":\"CLOSED\"}},\n" +
		"data: {\"service\":\"chat\",\"model\":\"m\",\"id\":\"bad@http://b\",\"health\":\"UNHEALTHY\",\"enabled\":true,\"lastMinute\":{\"requests\":10,\"errors\":2},\"breaker\":{\"state\":\"OPEN\",\"forced\":true}}]}\n\n"
	changeEvent = "event: change\nid: 2\ndata: {\"time\":\"2026-01-01T00:00:59Z\",\"kind\":\"breaker\",\"instanceId\":\"bad@http://b\",\"from\":\"CLOSED\",\"to\":\"OPEN\",\"reason\":\"5 failures in a row\"}\n\n"
	callEvent   = "event: call\nid: 3\ndata: {\"requestId\":\"req_1\",\"time\":\"2026-01-01T00:00:58Z\",\"service\":\"chat\",\"model\":\"m\\u001b[2J\",\"instance\":\"good@http://a\",\"httpStatus\":200,\"durationMs\":412,\"timeToFirstTokenMs\":83,\"usage\":{\"promptTokens\":12,\"completionTokens\":48},\"attempts\":2,\"keyId\":\"team-a\"}\n\n"
	failedEvent = "event: call\nid: 4\ndata: {\"requestId\":\"req_2\",\"time\":\"2026-01-01T00:00:59Z\",\"service\":\"chat\",\"httpStatus\":503,\"errorCode\":\"circuit_breaker_open\",\"durationMs\":0.25,\"attempts\":0}\n\n"
)

// feeds opens one text after the other, and records what was asked for.
type feeds struct {
	texts []string
	asked []string
}

func (f *feeds) open(_ context.Context, lastID string) (io.ReadCloser, error) {
	f.asked = append(f.asked, lastID)
	if len(f.texts) == 0 {
		return nil, errors.New("nobody listens")
	}
	text := f.texts[0]
	f.texts = f.texts[1:]
	return io.NopCloser(strings.NewReader(text)), nil
}

func TestAFeedThatEndsIsOpenedAgainWhereItEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		from := &feeds{texts: []string{"retry: 1000\n\n: hello\n\n" + callEvent + "event: new\nid: 9\ndata: {}\n\n", failedEvent}}
		var seen []string
		lost := 0
		err := terminal.Follow(t.Context(), from.open, func(e terminal.Event) error {
			seen = append(seen, e.Call.RequestID)
			if len(seen) == 2 {
				return terminal.ErrStop
			}
			return nil
		}, func(error) { lost++ })
		if err != nil || strings.Join(seen, " ") != "req_1 req_2" || lost != 1 {
			t.Errorf("%v %v, lost %d times", seen, err, lost)
		}
		if strings.Join(from.asked, ",") != ",9" {
			t.Errorf("asked for the events after %q", from.asked)
		}
	})
}

func TestAGatewayThatNeverAnsweredIsAnError(t *testing.T) {
	err := terminal.Follow(t.Context(), new(feeds).open, nil, func(error) { t.Error("tried again") })
	if err == nil || err.Error() != "nobody listens" {
		t.Error(err)
	}
}

func TestFollowingEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		tries := 0
		err := terminal.Follow(ctx, (&feeds{texts: []string{callEvent}}).open, func(terminal.Event) error { return nil }, func(error) { tries++ })
		if !errors.Is(err, context.DeadlineExceeded) || tries < 50 {
			t.Errorf("%v after %d tries", err, tries)
		}
	})
}

// screenOf returns a screen that has seen a feed.
func screenOf(t *testing.T, style terminal.Style, events ...string) *terminal.Screen {
	t.Helper()
	screen := &terminal.Screen{Style: style, Name: "gw"}
	count := 0
	if err := terminal.Follow(t.Context(), (&feeds{texts: []string{strings.Join(events, "")}}).open, func(e terminal.Event) error {
		screen.Take(e)
		if count++; count == len(events) {
			return terminal.ErrStop
		}
		return nil
	}, func(err error) { t.Error(err) }); err != nil {
		t.Fatal(err)
	}
	return screen
}

func TestScreenShowsWhatNeedsAttentionFirst(t *testing.T) {
	screen := screenOf(t, terminal.Style{}, snapshotEvent, changeEvent, callEvent, failedEvent)
	page := strings.Join(screen.Lines(0, 0), "\n")
	for _, part := range []string{
		"up 1m0s  version 3", "requests/s 7", "in flight 4", "queued 1", "last minute: 90 requests, 2 errors, latency p50 12ms p95 1.23s, first token -",
		"OPEN*", "breaker of bad@http://b: CLOSED -> OPEN (5 failures in a row)",
		"chat m?[2J -> good@http://a 200 412ms ttft=83ms 12+48tok attempts=2 key=team-a req_1",
		"chat - -> - 503 circuit_breaker_open 0.2ms req_2",
	} {
		if !strings.Contains(page, part) {
			t.Errorf("%q is missing in\n%s", part, page)
		}
	}
	if strings.Index(page, "chat      bad@") > strings.Index(page, "chat      good@") {
		t.Errorf("the instance with an open breaker is not first:\n%s", page)
	}
	if strings.Index(page, "req_2") > strings.Index(page, "req_1") {
		t.Errorf("the last call is not first:\n%s", page)
	}
}

func TestScreenShowsTheFiguresOfEachService(t *testing.T) {
	screen := screenOf(t, terminal.Style{}, "event: snapshot\ndata: {\"total\":{\"lastMinute\":{\"requests\":90}},\"services\":["+
		"{\"service\":\"chat\",\"lastMinute\":{\"requests\":50,\"latency\":{\"p50\":1400,\"p95\":1500},\"ttft\":{\"p50\":80,\"p95\":90}}},"+
		"{\"service\":\"rerank\"},{\"service\":\"embedding\",\"lastMinute\":{\"requests\":40,\"latency\":{\"p50\":3,\"p95\":4}}}]}\n\n")
	page := strings.Join(screen.Lines(0, 0), "\n")
	for _, part := range []string{
		"last minute: 90 requests, 0 errors\n", "       chat: 50 requests, latency p50 1.40s p95 1.50s, first token p50 80ms p95 90ms, gateway itself -\n",
		"  embedding: 40 requests, latency p50 3.0ms p95 4.0ms, first token -, gateway itself -\n",
	} {
		if !strings.Contains(page, part) {
			t.Errorf("%q is missing in\n%s", part, page)
		}
	}
}

func TestScreenFitsTheTerminal(t *testing.T) {
	for _, colour := range []bool{false, true} {
		screen := screenOf(t, terminal.Style{Colour: colour}, snapshotEvent, changeEvent, callEvent, failedEvent)
		lines := screen.Lines(40, 7)
		if len(lines) != 7 {
			t.Errorf("%d lines", len(lines))
		}
		for _, line := range lines {
			shown := line
			for {
				before, rest, found := strings.Cut(shown, "\x1b[")
				if !found {
					break
				}
				_, after, _ := strings.Cut(rest, "m")
				shown = before + after
			}
			if utf8.RuneCountInString(shown) > 40 || strings.Contains(shown, "\x1b") {
				t.Errorf("too wide: %q", line)
			}
			if at := strings.LastIndex(line, "\x1b["); at >= 0 && !strings.HasPrefix(line[at:], "\x1b[0m") {
				t.Errorf("a colour does not end: %q", line)
			}
		}
	}
}

func TestManyInstancesLeaveRoomForCalls(t *testing.T) {
	start, end, _ := strings.Cut(snapshotEvent, "data: {\"service\":\"chat\",\"model\":\"m\",\"id\":\"bad")
	one := "data: {\"service\":\"chat\",\"id\":\"more@http://c\",\"health\":\"HEALTHY\",\"enabled\":true,\"breaker\":{\"state\":\"CLOSED\"}},\n"
	many := start + strings.Repeat(one, 50) + "data: {\"service\":\"chat\",\"model\":\"m\",\"id\":\"bad" + end
	lines := screenOf(t, terminal.Style{}, many, callEvent).Lines(120, 24)
	page := strings.Join(lines, "\n")
	if !strings.Contains(page, "chat      bad@") || !strings.Contains(page, "… and 41 more\n") || !strings.Contains(page, "req_1") {
		t.Errorf("%s", page)
	}
}
