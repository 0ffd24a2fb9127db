package gatewaytest

import (
	"io"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// Reply is a reply as the client received it.
type Reply struct {
	Status int
	Header http.Header
	Body   string
	Err    error // the error of reading the body, if any
	Closes bool  // the connection ends with this answer
}

// ReadReply reads an answer to its end.
func ReadReply(response *http.Response) Reply {
	defer response.Body.Close()
	content, err := io.ReadAll(response.Body)
	return Reply{response.StatusCode, response.Header, string(content), err, response.Close}
}

// APIError is the error body of the unified API.
type APIError struct {
	Message string
	Type    string
	Param   string // empty for null
	Code    string
	Details jsontext.Value
}

// ErrorOf reads an error body and checks that it has the standard shape.
func ErrorOf(t *testing.T, body string) APIError {
	t.Helper()
	var outer map[string]jsontext.Value
	if err := json.Unmarshal([]byte(body), &outer); err != nil || len(outer) != 1 || outer["error"] == nil {
		t.Fatalf("no error body (%v): %q", err, body)
	}
	var fields map[string]jsontext.Value
	if err := json.Unmarshal(outer["error"], &fields); err != nil {
		t.Fatalf("no error object: %s", body)
	}
	text := func(name string) (s string) {
		if err := json.Unmarshal(fields[name], &s); err != nil {
			t.Errorf("error.%s is no string: %s", name, body)
		}
		return s
	}
	fault := APIError{Message: text("message"), Type: text("type"), Code: text("code"), Details: fields["details"]}
	if string(fields["param"]) != "null" {
		fault.Param = text("param")
	}
	if fault.Message == "" || fault.Type == "" || fault.Code == "" {
		t.Errorf("an error body without a message, type or code: %s", body)
	}
	for name := range fields {
		if !strings.Contains(" message type param code details ", " "+name+" ") {
			t.Errorf("the error body has a member %s: %s", name, body)
		}
	}
	return fault
}

// FailsWith checks status, type, code and param of an answer, and the members that every
// error has. It returns the error.
func (a Reply) FailsWith(t *testing.T, status int, kind, code, param string) APIError {
	t.Helper()
	if a.Err != nil {
		t.Errorf("reading the answer: %v", a.Err)
	}
	if a.Status != status {
		t.Errorf("status %d, want %d: %s", a.Status, status, a.Body)
	}
	if a.Header.Get("Content-Type") != "application/json" {
		t.Errorf("Content-Type %q", a.Header.Get("Content-Type"))
	}
	if a.Header.Get("X-Request-Id") == "" {
		t.Error("no x-request-id")
	}
	fault := ErrorOf(t, a.Body)
	if fault.Type != kind || fault.Code != code || fault.Param != param {
		t.Errorf("type %q, code %q, param %q, want %q, %q, %q: %s", fault.Type, fault.Code, fault.Param, kind, code,
			param, a.Body)
	}
	return fault
}

// Succeeds checks that a reply has status 200 and was read completely.
func (a Reply) Succeeds(t *testing.T) Reply {
	t.Helper()
	if a.Status != http.StatusOK || a.Err != nil {
		t.Fatalf("status %d, %v: %s", a.Status, a.Err, a.Body)
	}
	return a
}

// LimitOf reads the three headers of a limit.
func (a Reply) LimitOf(t *testing.T) (limit, remaining int, reset time.Duration) {
	t.Helper()
	limit, err := strconv.Atoi(a.Header.Get("X-Ratelimit-Limit-Requests"))
	if err != nil {
		t.Fatalf("status %d without a limit: %v", a.Status, a.Header)
	}
	remaining, err = strconv.Atoi(a.Header.Get("X-Ratelimit-Remaining-Requests"))
	if err != nil {
		t.Fatal(err)
	}
	reset, err = time.ParseDuration(a.Header.Get("X-Ratelimit-Reset-Requests"))
	if err != nil {
		t.Fatal(err)
	}
	return limit, remaining, reset
}

// RetryOf reads how long a refused client is told to wait.
func (a Reply) RetryOf(t *testing.T) time.Duration {
	t.Helper()
	seconds, err := strconv.Atoi(a.Header.Get("Retry-After"))
	if err != nil || seconds < 1 {
		t.Fatalf("Retry-After %q", a.Header.Get("Retry-After"))
	}
	ms, err := strconv.Atoi(a.Header.Get("Retry-After-Ms"))
	if err != nil || ms < 1 || ms > seconds*1000 || ms <= (seconds-1)*1000 && seconds > 1 {
		t.Fatalf("Retry-After %d s, retry-after-ms %q", seconds, a.Header.Get("Retry-After-Ms"))
	}
	return time.Duration(ms) * time.Millisecond
}

// IsOverLimit checks that a rate limit refused the request, and returns how long to wait.
func (a Reply) IsOverLimit(t *testing.T) time.Duration {
	t.Helper()
	a.FailsWith(t, http.StatusTooManyRequests, "rate_limit_exceeded", "rate_limit_exceeded", "")
	return a.RetryOf(t)
}

// DecodeObject decodes a JSON object.
func DecodeObject(t *testing.T, body string) map[string]any {
	t.Helper()
	var object map[string]any
	if err := json.Unmarshal([]byte(body), &object); err != nil {
		t.Fatalf("%v: %s", err, body)
	}
	return object
}

// At follows a path of keys and numbers such as "a/0/b".
func At(t *testing.T, value any, path string) any {
	t.Helper()
	for key := range strings.SplitSeq(path, "/") {
		switch v := value.(type) {
		case map[string]any:
			member, there := v[key]
			if !there {
				t.Errorf("%s: there is no %s in %v", path, key, slices.Sorted(maps.Keys(v)))
				return nil
			}
			value = member
		case []any:
			n, err := strconv.Atoi(key)
			if err != nil {
				n = 0
			}
			if n >= len(v) {
				t.Errorf("%s: the list has %d items", path, len(v))
				return nil
			}
			value = v[n]
		default:
			t.Errorf("%s: %v has no members", path, value)
			return nil
		}
	}
	return value
}

// InvalidRequest is the error type of requests that are refused for their content;
// SomeMessages is the member that a chat request must have.
const (
	InvalidRequest = "invalid_request_error"
	SomeMessages   = `"messages":[{"role":"user","content":"hi"}]`
)

// ContainsNone checks that a text gives none of the secrets away.
func ContainsNone(t *testing.T, text string, secrets ...string) {
	t.Helper()
	for _, secret := range secrets {
		if strings.Contains(text, secret) {
			t.Errorf("%q is shown in %.1000s", secret, text)
		}
	}
}
