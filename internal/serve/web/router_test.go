package web

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"unsafe"
)

// A path that is a route itself has the methods of its own routes only, although
// a pattern with a parameter would match it.
func TestLiteralPathHasOnlyItsOwnMethods(t *testing.T) {
	t.Parallel()
	answer := func(status int) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(status) }
	}
	router := NewRouter(answer(http.StatusNotFound), func(w http.ResponseWriter, _ *http.Request, _ string) { w.WriteHeader(http.StatusMethodNotAllowed) })
	router.Handle("GET /versions/current", answer(http.StatusOK))
	router.Handle("GET /versions/{version}", answer(http.StatusAccepted))
	router.Handle("DELETE /versions/{version}", answer(http.StatusNoContent))
	for _, test := range []struct {
		method, path string
		status       int
		allow        string
	}{
		{"GET", "/versions/current", 200, ""},
		{"GET", "/versions/1", 202, ""},
		{"DELETE", "/versions/1", 204, ""},
		{"DELETE", "/versions/current", 405, "GET, HEAD, OPTIONS"},
		{"DELETE", "/versions/c%75rrent", 405, "GET, HEAD, OPTIONS"},
		{"PUT", "/versions/current", 405, "GET, HEAD, OPTIONS"},
		{"PUT", "/versions/1", 405, "GET, HEAD, DELETE, OPTIONS"},
		{"OPTIONS", "/versions/current", 204, "GET, HEAD, OPTIONS"},
		{"DELETE", "/versions", 404, ""},
	} {
		recorder := httptest.NewRecorder()
		router.ServeHTTP(recorder, httptest.NewRequestWithContext(t.Context(), test.method, test.path, nil))
		if recorder.Code != test.status || recorder.Header().Get("Allow") != test.allow {
			t.Errorf("%s %s: %d, Allow %q", test.method, test.path, recorder.Code, recorder.Header().Get("Allow"))
		}
	}
}

// CONNECT has an address in place of a path. It is refused in the form of the other
// errors, and not by the multiplexer.
func TestConnectIsRefusedInTheFormOfOtherErrors(t *testing.T) {
	t.Parallel()
	refused := 0
	router := NewRouter(http.NotFound, func(w http.ResponseWriter, _ *http.Request, _ string) {
		refused++
		w.WriteHeader(http.StatusMethodNotAllowed)
	})
	router.Handle("GET /models", http.NotFound)
	for _, target := range []url.URL{{Host: "backend.test:443"}, {Path: "/models"}} {
		recorder := httptest.NewRecorder()
		router.ServeHTTP(recorder, &http.Request{Method: http.MethodConnect, URL: &target, Host: target.Host})
		if recorder.Code != http.StatusMethodNotAllowed || recorder.Header().Get("Allow") == "" || recorder.Body.Len() > 0 {
			t.Errorf("%v: %d %v %q", target, recorder.Code, recorder.Header(), recorder.Body)
		}
	}
	if refused != 2 {
		t.Errorf("%d of 2 were refused by the function for that", refused)
	}
}

// A handler may keep a name from the path, such as that of a tenant. It must not keep the
// line of the request with it, which may have a long query.
func TestValuesOfAPathAreTextsOfTheirOwn(t *testing.T) {
	t.Parallel()
	router := NewRouter(http.NotFound, func(http.ResponseWriter, *http.Request, string) {})
	calls := 0
	check := func(_ http.ResponseWriter, r *http.Request) {
		calls++
		line := r.URL.Path
		for name, want := range map[string]string{"id": "one", "rest": "two/three"} {
			value := r.PathValue(name)
			if value != want {
				t.Errorf("%s is %q", name, value)
			}
			if strings.Contains(line, value) && unsafe.StringData(value) == unsafe.StringData(line[strings.Index(line, value):]) {
				t.Errorf("%s is a part of the path", name)
			}
		}
	}
	router.Handle("GET /first/{id}/{rest...}", check)
	router.HandleRest("GET /second/{id}/{rest...}", check)
	for _, path := range []string{"/first/one/two/three", "/second/one/two/three"} {
		router.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, path, nil))
	}
	if calls != 2 {
		t.Errorf("%d calls", calls)
	}
}
