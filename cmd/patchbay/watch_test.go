// This file belongs to the wing terminal.

package main

import (
	"strings"
	"testing"

	"github.com/patchbay-ai/patchbay/internal/gateway/gatewaytest"
)

func TestTailShowsCalls(t *testing.T) {
	t.Parallel()
	r, _ := gatewaytest.StartOne(t)
	out := make(chan string, 1)
	go func() {
		// Standard error may tell of calls that were left out: this test sends as many as it can.
		_, stdout, _ := runFor(t, "tail", "--url", r.URL, "--errors", "-n", "1")
		out <- stdout
	}()
	for {
		r.Chat(gatewaytest.PlainHi)
		r.Chat(strings.Replace(gatewaytest.PlainHi, `"m"`, `"nobody-has-it"`, 1))
		select {
		case got := <-out:
			if !strings.Contains(got, "chat nobody-has-it -> - 503 service_unavailable") || strings.Count(got, "\n") != 1 {
				t.Errorf("%q", got)
			}
			return
		default:
		}
	}
}

func TestTopShowsTheStateOnce(t *testing.T) {
	t.Parallel()
	r, b := gatewaytest.StartOne(t)
	code, stdout, stderr := runFor(t, "top", "--url", r.URL)
	if code != exitOK || stderr != "" || !strings.Contains(stdout, "m@"+b.URL()) || strings.Contains(stdout, "\x1b") {
		t.Errorf("%d %q %q", code, stdout, stderr)
	}
}

func TestWatchingSaysWhyItCannot(t *testing.T) {
	t.Parallel()
	r := gatewaytest.Start(t, gatewaytest.SecuredYAML())
	for _, verb := range []string{"tail", "top"} {
		if code, _, stderr := runFor(t, verb, "--url", r.URL); code != exitFailed || !strings.Contains(stderr, "status 401") || !strings.Contains(stderr, "PATCHBAY_TOKEN") {
			t.Errorf("%s without a token: %d %s", verb, code, stderr)
		}
		if code, _, stderr := runFor(t, verb, "--url", "http://127.0.0.1:1"); code != exitFailed || !strings.Contains(stderr, "no gateway answers") {
			t.Errorf("%s without a gateway: %d %s", verb, code, stderr)
		}
		if code, _, _ := runFor(t, verb, "--url", "nonsense"); code != exitUsage {
			t.Errorf("%s at nonsense: %d", verb, code)
		}
	}
	if code, stdout, stderr := runFor(t, "top", "--url", r.URL, "--token", "viewer-token"); code != exitOK {
		t.Errorf("top with a token: %d %s%s", code, stdout, stderr)
	}
}
