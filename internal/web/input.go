package web

import (
	"errors"
	"io"
	"net/http"
	"os"
	"strings"
	"time"
)

// FirstOf returns the first value of a header, whose name is given in its canonical
// form, or an empty text.
func FirstOf(h http.Header, name string) string {
	if values := h[name]; len(values) > 0 {
		return values[0]
	}
	return ""
}

// Errors of ReadBody.
var (
	ErrBodyTooLarge   = errors.New("the body is larger than 1 MiB")
	ErrBodyTooSlow    = errors.New("the body did not arrive in time")
	ErrBodyUnreadable = errors.New("body: could not be read")
)

// maxBody is far more than any configuration that a person writes.
const maxBody = 1 << 20

// ReadBody returns the body of a request to the management API. If it does not read the
// body to its end, the connection is closed after the reply, so that the rest is not
// taken for another request.
func ReadBody(w http.ResponseWriter, r *http.Request) ([]byte, error) {
	if r.ContentLength > maxBody {
		w.Header().Set("Connection", "close")
		return nil, ErrBodyTooLarge
	}
	body, err := io.ReadAll(io.LimitReader(r.Body, maxBody+1))
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded):
		w.Header().Set("Connection", "close")
		return nil, ErrBodyTooSlow
	case err != nil:
		return nil, ErrBodyUnreadable
	case len(body) > maxBody:
		w.Header().Set("Connection", "close")
		return nil, ErrBodyTooLarge
	}
	return body, nil
}

// BodyStatus returns the status of an error of ReadBody, and false for any other
// error.
func BodyStatus(err error) (status int, ok bool) {
	switch {
	case errors.Is(err, ErrBodyTooLarge):
		return http.StatusRequestEntityTooLarge, true
	case errors.Is(err, ErrBodyTooSlow):
		return http.StatusRequestTimeout, true
	case errors.Is(err, ErrBodyUnreadable):
		return http.StatusBadRequest, true
	}
	return 0, false
}

// Shorten cuts what a client sent to a length that fits a message.
func Shorten(text string) string { return CutText(text, 160) }

// CutText cuts a text that is longer than so many bytes, and marks the cut.
func CutText(text string, longest int) string {
	if len(text) > longest {
		return strings.ToValidUTF8(text[:longest], "") + "…"
	}
	return text
}

// NoOperation is the message of a reply to a path that has no route.
func NoOperation(r *http.Request) string {
	return "There is no operation " + Shorten(r.Method+" "+r.URL.Path) + "; all of them are in /openapi.json."
}

// NoMethod is the message of a reply to a path that has routes for other methods only.
func NoMethod(r *http.Request, allow string) string {
	return "The method " + Shorten(r.Method) + " is not allowed here; allowed are " + allow + "."
}

// Time formats a time as replies have it: in UTC, with milliseconds.
func Time(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000Z07:00") }

// TimeOrNil is Time for what may not have happened yet.
func TimeOrNil(t time.Time) *string {
	if t.IsZero() {
		return nil
	}
	text := Time(t)
	return &text
}
