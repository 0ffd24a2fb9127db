package main

import (
	"fmt"
	"net/http"
	"strconv"
	"testing"
)

// Who tries credentials is told to wait; who has a right one is not, wherever it
// comes from.
func TestManyWrongCredentialsAreSlowedDown(t *testing.T) {
	b := startBackend(t)
	security := securedYAML()
	security = security[:len(security)-2] + ", keys: [{id: k, key-sha256: " + hashOf("right-key") + "}]}\n"
	r := startGateway(t, poolYAML(b)+security)
	const tries = 40
	for _, surface := range []struct {
		name, right, from string
		ask               func(credential, from string) reply
	}{
		{"unified API", "right-key", "203.0.113.7", func(credential, from string) reply {
			return r.chat(plainHi, "Authorization", "Bearer "+credential, "X-Forwarded-For", from)
		}},
		{"models", "right-key", "203.0.113.8", func(credential, from string) reply {
			return r.do(http.MethodGet, "/v1/models", "", "X-Api-Key", credential, "X-Forwarded-For", from)
		}},
		{"management", "viewer-token", "2001:db8::1", func(credential, from string) reply {
			return r.do(http.MethodGet, "/api/models", "", "Authorization", "Bearer "+credential, "X-Forwarded-For", from)
		}},
	} {
		statuses := map[int]int{}
		for n := range tries {
			wrong := surface.ask(fmt.Sprint("wrong-", n), surface.from)
			statuses[wrong.status]++
			if wait, err := strconv.Atoi(wrong.header.Get("Retry-After")); wrong.status == 429 && (err != nil || wait < 1) {
				t.Errorf("%s: Retry-After %q", surface.name, wrong.header.Get("Retry-After"))
			}
			if got := surface.ask(surface.right, surface.from); got.status != 200 {
				t.Fatalf("%s: a right credential after %d wrong ones: %d %s", surface.name, n+1, got.status, got.body)
			}
		}
		if statuses[401] < 10 || statuses[429] == 0 || statuses[401]+statuses[429] != tries {
			t.Errorf("%s: %v", surface.name, statuses)
		}
		if got := surface.ask("wrong", "198.51.100.9"); got.status != 401 {
			t.Errorf("%s: another address: %d", surface.name, got.status)
		}
		if got := surface.ask("", surface.from); got.status != 401 {
			t.Errorf("%s: no credential at all: %d", surface.name, got.status)
		}
	}
}
