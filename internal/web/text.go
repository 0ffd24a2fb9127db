package web

import (
	"net/http"
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
