package web

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"testing"
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
