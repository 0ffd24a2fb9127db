package outgoing_test

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/patchbay-ai/patchbay/internal/request/outgoing"
)

// A redirect is the answer, and the server to which it leads gets nothing.
func TestRedirectsAreNotFollowed(t *testing.T) {
	t.Parallel()
	other := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		t.Errorf("the other server got %s with key %q", r.Method, r.Header.Get("X-Key"))
	}))
	t.Cleanup(other.Close)
	for _, status := range []int{301, 302, 303, 307, 308} {
		named := httptest.NewServer(http.RedirectHandler(other.URL, status))
		t.Cleanup(named.Close)
		ask := func(client *http.Client) (*http.Response, error) {
			request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, named.URL, http.NoBody)
			if err != nil {
				t.Fatal(err)
			}
			request.Header.Set("X-Key", "secret")
			return client.Do(request)
		}
		response, err := ask(outgoing.Client(&http.Transport{DisableKeepAlives: true}, 0))
		if err != nil || response.StatusCode != status {
			t.Errorf("status %d: got %v, %v", status, response, err)
		} else {
			_ = response.Body.Close()
		}
		// The hook of a client that follows redirects has the same effect.
		response, err = ask(&http.Client{Transport: &http.Transport{DisableKeepAlives: true, Proxy: outgoing.Proxy}})
		if err == nil {
			_ = response.Body.Close()
			t.Errorf("status %d over a library's client: got status %d, want an error", status, response.StatusCode)
		}
	}
}
