package main

import (
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
)

// The address of the gateway itself shows people and programs where to go on.
func TestRootIsAPageForBrowsersAndJSONForOthers(t *testing.T) {
	r := startGateway(t, "")
	page := r.do("GET", "/", "", "Accept", "text/html,application/xhtml+xml,*/*;q=0.8").succeeds(t)
	if !strings.HasPrefix(page.header.Get("Content-Type"), "text/html") || !strings.Contains(page.header.Get("Content-Security-Policy"), "default-src 'none'") {
		t.Errorf("%v", page.header)
	}
	for _, foreign := range []string{"http://", "https://", "<script", "src="} {
		if strings.Contains(page.body, foreign) {
			t.Errorf("the page has %q", foreign)
		}
	}
	for _, accept := range []string{"*/*", "application/json", ""} {
		answer := r.do("GET", "/", "", "Accept", accept).succeeds(t)
		var root struct {
			Name, Version string
			Links         map[string]string
		}
		if err := json.Unmarshal([]byte(answer.body), &root, json.MatchCaseInsensitiveNames(true)); err != nil || root.Name != "patchbay" || root.Version != version {
			t.Errorf("Accept %q: %s, %v", accept, answer.body, err)
		}
		for name, link := range root.Links {
			r.do("GET", link, "").succeeds(t)
			if !strings.Contains(page.body, `href="`+link+`"`) {
				t.Errorf("the page has no link to %s", name)
			}
		}
		if answer.header.Get("Vary") == "" {
			t.Errorf("%v", answer.header)
		}
	}
	if answer := r.do("POST", "/", ""); answer.status != 405 || answer.header.Get("Allow") != "GET, HEAD, OPTIONS" {
		t.Errorf("POST: %d, Allow %q", answer.status, answer.header.Get("Allow"))
	}
	if answer := r.do("GET", "/nothing", "", "Accept", "text/html"); answer.status != 404 {
		t.Errorf("another path: %d", answer.status)
	}
}
