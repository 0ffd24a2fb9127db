package pages_test

import (
	"bytes"
	"compress/gzip"
	"io"
	"regexp"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"

	"github.com/patchbay-ai/patchbay/internal/gateway/gatewaytest"
)

const browser = "text/html,application/xhtml+xml,*/*;q=0.8"

// The address of the gateway itself is the console for people, and shows programs
// where to go on.
func TestRootIsTheConsoleForBrowsersAndJSONForOthers(t *testing.T) {
	r := gatewaytest.Start(t, "")
	page := r.Do("GET", "/", "", "Accept", browser).Succeeds(t)
	if !strings.HasPrefix(page.Header.Get("Content-Type"), "text/html") || !strings.Contains(page.Body, `id="root"`) {
		t.Errorf("%v %s", page.Header, page.Body)
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
		for _, link := range root.Links {
			r.Do("GET", link, "").Succeeds(t)
		}
		if !strings.Contains(strings.Join(answer.Header.Values("Vary"), ","), "Accept") {
			t.Errorf("%v", answer.Header)
		}
	}
	if answer := r.Do("POST", "/", ""); answer.Status != 405 || answer.Header.Get("Allow") != "GET, HEAD, OPTIONS" {
		t.Errorf("POST: %d, Allow %q", answer.Status, answer.Header.Get("Allow"))
	}
}

// Each page can be opened and reloaded at its own address; programs, and people
// at other addresses, are told that nothing is there.
func TestPagesOfTheConsoleAreForBrowsersOnly(t *testing.T) {
	r := gatewaytest.Start(t, "")
	index := r.Do("GET", "/", "", "Accept", browser).Succeeds(t).Body
	for _, path := range []string{"/services", "/playground", "/calls", "/runs", "/resilience", "/quota", "/spend", "/batches", "/versions", "/keys", "/settings", "/calls/"} {
		if page := r.Do("GET", path, "", "Accept", browser); page.Status != 200 || page.Body != index {
			t.Errorf("%s: %d", path, page.Status)
		}
		if answer := r.Do("GET", path, "", "Accept", "application/json"); answer.Status != 404 || !strings.HasPrefix(answer.Body, `{"error":`) {
			t.Errorf("%s for a program: %d %s", path, answer.Status, answer.Body)
		}
	}
	// At an address of nothing the console says so; parts of the API answer as for programs.
	for _, path := range []string{"/nothing", "/calls/1", "/index.html", "/dist.sha256"} {
		if page := r.Do("GET", path, "", "Accept", browser); page.Status != 404 || page.Body != index || page.Header.Get("Etag") != "" {
			t.Errorf("%s: %d %v", path, page.Status, page.Header)
		}
		for _, method := range []string{"GET", "POST"} {
			if answer := r.Do(method, path, "", "Accept", "application/json"); answer.Status != 404 || !strings.HasPrefix(answer.Body, `{"error":`) {
				t.Errorf("%s %s for a program: %d %s", method, path, answer.Status, answer.Body)
			}
		}
	}
	for _, path := range []string{"/v1/nothing", "/api/nothing", "/actuator/nothing", "/assets", "/assets/x/y.js"} {
		if answer := r.Do("GET", path, "", "Accept", browser); answer.Status != 404 || !strings.HasPrefix(answer.Header.Get("Content-Type"), "application/") {
			t.Errorf("%s: %d %v", path, answer.Status, answer.Header)
		}
	}
	if answer := r.Do("GET", "/models", "", "Accept", browser); !strings.HasPrefix(answer.Body, `{"object":"list"`) {
		t.Errorf("/models: %d %s", answer.Status, answer.Body)
	}
}

// Nobody but the gateway may give the page a script, and nobody may show the page
// inside another one.
func TestPagesLoadNothingFromElsewhere(t *testing.T) {
	r := gatewaytest.Start(t, "")
	page := r.Do("GET", "/", "", "Accept", browser).Succeeds(t)
	policy := page.Header.Get("Content-Security-Policy")
	for _, wanted := range []string{"default-src 'none'", "script-src 'self'", "style-src 'self'", "connect-src 'self'", "base-uri 'none'", "form-action 'none'", "frame-ancestors 'none'"} {
		if !strings.Contains(policy, wanted) {
			t.Errorf("%q is not part of %q", wanted, policy)
		}
	}
	if strings.Contains(policy, "unsafe") || strings.Contains(policy, "http") {
		t.Errorf("%q", policy)
	}
	if page.Header.Get("Referrer-Policy") != "no-referrer" || page.Header.Get("Cross-Origin-Opener-Policy") != "same-origin" {
		t.Errorf("%v", page.Header)
	}
}

// The page is asked for each time, and says by its tag whether it is another one;
// its files have addresses that change with them, and are asked for once.
func TestFilesOfTheConsoleAreCachedForEver(t *testing.T) {
	r := gatewaytest.Start(t, "")
	page := r.Do("GET", "/", "", "Accept", browser).Succeeds(t)
	if page.Header.Get("Cache-Control") != "no-cache" {
		t.Errorf("%v", page.Header)
	}
	tag := page.Header.Get("Etag")
	if again := r.Do("GET", "/calls", "", "Accept", browser, "If-None-Match", tag); again.Status != 304 || again.Body != "" {
		t.Errorf("%d %s", again.Status, again.Body)
	}
	if again := r.Do("GET", "/calls", "", "Accept", browser, "If-None-Match", `W/"0"`); again.Status != 200 {
		t.Errorf("%d", again.Status)
	}
	named := regexp.MustCompile(`(?:src|href)="(/[^"]+)"`).FindAllStringSubmatch(page.Body, -1)
	if len(named) < 4 {
		t.Fatalf("%s", page.Body)
	}
	for _, name := range named {
		asset := r.Do("GET", name[1], "").Succeeds(t)
		if cached := asset.Header.Get("Cache-Control"); !strings.Contains(cached, "immutable") {
			t.Errorf("%s: %q", name[1], cached)
		}
		older := regexp.MustCompile(`/assets/\w+/`).ReplaceAllString(name[1], "/assets/0123456789abcdef/")
		if answer := r.Do("GET", older, ""); older == name[1] || answer.Status != 404 || answer.Header.Get("Cache-Control") != "no-store" {
			t.Errorf("%s of another build: %d %v", older, answer.Status, answer.Header)
		}
	}
}

func TestFilesOfTheConsoleAreCompressed(t *testing.T) {
	r := gatewaytest.Start(t, "")
	page := r.Do("GET", "/", "", "Accept", browser).Succeeds(t)
	path := regexp.MustCompile(`/assets/\w+/vendor.js`).FindString(page.Body)
	plain := r.Do("GET", path, "", "Accept-Encoding", "identity").Succeeds(t)
	for _, accepted := range []string{"gzip", "gzip, deflate, br"} {
		packed := r.Do("GET", path, "", "Accept-Encoding", accepted).Succeeds(t)
		if packed.Header.Get("Content-Encoding") != "gzip" || len(packed.Body) > len(plain.Body)/2 {
			t.Fatalf("%q: %d bytes, %v", accepted, len(packed.Body), packed.Header)
		}
		from, err := gzip.NewReader(strings.NewReader(packed.Body))
		if err != nil {
			t.Fatal(err)
		}
		if content, err := io.ReadAll(from); err != nil || !bytes.Equal(content, []byte(plain.Body)) {
			t.Errorf("what is compressed is something else: %v", err)
		}
	}
	if refused := r.Do("GET", path, "", "Accept-Encoding", "gzip;q=0").Succeeds(t); refused.Header.Get("Content-Encoding") != "" || refused.Body != plain.Body {
		t.Errorf("%v", refused.Header)
	}
	if plain.Header.Get("Content-Type") != "text/javascript; charset=utf-8" || !strings.Contains(strings.Join(plain.Header.Values("Vary"), ","), "Accept-Encoding") {
		t.Errorf("%v", plain.Header)
	}
}

// The first page is interactive within a second on a slow line.
func TestFirstPageIsAtMost250KBOfScript(t *testing.T) {
	r := gatewaytest.Start(t, "")
	page := r.Do("GET", "/", "", "Accept", browser).Succeeds(t)
	build := regexp.MustCompile(`/assets/\w+/`).FindString(page.Body)
	needed := []string{build + "overview.js", build + "uplot.js"}
	for _, name := range regexp.MustCompile(`(?:src|href)="(/[^"]+\.js)"`).FindAllStringSubmatch(page.Body, -1) {
		needed = append(needed, name[1])
	}
	size := 0
	for _, name := range needed {
		size += len(r.Do("GET", name, "", "Accept-Encoding", "gzip").Succeeds(t).Body)
	}
	if size > 250_000 || size < 100_000 {
		t.Errorf("%d bytes of script: %v", size, needed)
	}
}

func TestAdminLeadsToTheConsole(t *testing.T) {
	r := gatewaytest.Start(t, "")
	if answer := r.Do("GET", "/admin", ""); answer.Status != 302 || answer.Header.Get("Location") != "/" {
		t.Errorf("%d %v", answer.Status, answer.Header)
	}
}
