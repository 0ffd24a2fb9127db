package openapi_test

import (
	"strings"
	"testing"

	"github.com/go-json-experiment/json"

	"github.com/patchbay-ai/patchbay/internal/gatewaytest"
)

// The address of the gateway itself shows people and programs where to go on.
func TestRootIsAPageForBrowsersAndJSONForOthers(t *testing.T) {
	r := gatewaytest.Start(t, "")
	page := r.Do("GET", "/", "", "Accept", "text/html,application/xhtml+xml,*/*;q=0.8").Succeeds(t)
	if !strings.HasPrefix(page.Header.Get("Content-Type"), "text/html") || !strings.Contains(page.Header.Get("Content-Security-Policy"), "default-src 'none'") {
		t.Errorf("%v", page.Header)
	}
	for _, foreign := range []string{"http://", "https://", "<script", "src="} {
		if strings.Contains(page.Body, foreign) {
			t.Errorf("the page has %q", foreign)
		}
	}
	for _, accept := range []string{"*/*", "application/json", ""} {
		answer := r.Do("GET", "/", "", "Accept", accept).Succeeds(t)
		var root struct {
			Name, Version string
			Links         map[string]string
		}
		if err := json.Unmarshal([]byte(answer.Body), &root, json.MatchCaseInsensitiveNames(true)); err != nil || root.Name != "patchbay" || root.Version != gatewaytest.Version {
			t.Errorf("Accept %q: %s, %v", accept, answer.Body, err)
		}
		for name, link := range root.Links {
			r.Do("GET", link, "").Succeeds(t)
			if !strings.Contains(page.Body, `href="`+link+`"`) {
				t.Errorf("the page has no link to %s", name)
			}
		}
		if answer.Header.Get("Vary") == "" {
			t.Errorf("%v", answer.Header)
		}
	}
	if answer := r.Do("POST", "/", ""); answer.Status != 405 || answer.Header.Get("Allow") != "GET, HEAD, OPTIONS" {
		t.Errorf("POST: %d, Allow %q", answer.Status, answer.Header.Get("Allow"))
	}
	if answer := r.Do("GET", "/nothing", "", "Accept", "text/html"); answer.Status != 404 {
		t.Errorf("another path: %d", answer.Status)
	}
}
