package web_test

import (
	"fmt"
	"net/http"
	"strconv"
	"testing"

	"github.com/patchbay-ai/patchbay/internal/gateway/gatewaytest"
)

// A caller that tries credentials is told to wait; one with a right credential is not, wherever it
// comes from.
func TestManyWrongCredentialsAreSlowedDown(t *testing.T) {
	t.Parallel()
	b := gatewaytest.StartBackend(t)
	security := gatewaytest.SecuredYAML()
	security = security[:len(security)-2] + ", keys: [{id: k, key-sha256: " + gatewaytest.HashOf("right-key") + "}]}\n"
	r := gatewaytest.Start(t, gatewaytest.PoolYAML(b)+security)
	const tries = 40
	for _, surface := range []struct {
		name, right, from string
		ask               func(credential, from string) gatewaytest.Reply
	}{
		{"unified API", "right-key", "203.0.113.7", func(credential, from string) gatewaytest.Reply {
			return r.Chat(gatewaytest.PlainHi, "Authorization", "Bearer "+credential, "X-Forwarded-For", from)
		}},
		{"models", "right-key", "203.0.113.8", func(credential, from string) gatewaytest.Reply {
			return r.Do(http.MethodGet, "/v1/models", "", "X-Api-Key", credential, "X-Forwarded-For", from)
		}},
		{"management", "viewer-token", "2001:db8::1", func(credential, from string) gatewaytest.Reply {
			return r.Do(http.MethodGet, "/api/models", "", "Authorization", "Bearer "+credential, "X-Forwarded-For", from)
		}},
	} {
		statuses := map[int]int{}
		for n := range tries {
			wrong := surface.ask(fmt.Sprint("wrong-", n), surface.from)
			statuses[wrong.Status]++
			if wait, err := strconv.Atoi(wrong.Header.Get("Retry-After")); wrong.Status == 429 && (err != nil || wait < 1) {
				t.Errorf("%s: Retry-After %q", surface.name, wrong.Header.Get("Retry-After"))
			}
			if got := surface.ask(surface.right, surface.from); got.Status != 200 {
				t.Fatalf("%s: a right credential after %d wrong ones: %d %s", surface.name, n+1, got.Status, got.Body)
			}
		}
		if statuses[401] < 10 || statuses[429] == 0 || statuses[401]+statuses[429] != tries {
			t.Errorf("%s: %v", surface.name, statuses)
		}
		if got := surface.ask("wrong", "198.51.100.9"); got.Status != 401 {
			t.Errorf("%s: another address: %d", surface.name, got.Status)
		}
		if got := surface.ask("", surface.from); got.Status != 401 {
			t.Errorf("%s: no credential at all: %d", surface.name, got.Status)
		}
	}
}
