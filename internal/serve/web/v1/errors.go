package v1

import (
	"errors"
	"math/rand/v2"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/patchbay-ai/patchbay/internal/count/memory"
	"github.com/patchbay-ai/patchbay/internal/count/ratelimit"
	"github.com/patchbay-ai/patchbay/internal/plain/say"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
	"github.com/patchbay-ai/patchbay/internal/serve/web"
)

// longestWait is the longest Retry-After, because some clients wait for as long as it says.
// If the wait is longer, the reply tells clients not to retry.
const longestWait = 30 * time.Second

// A random part of up to a fifth, and at least leastSpread, is added to a wait that many
// clients are told at once. It never makes the wait shorter: a client that waits as told is
// let in.
const (
	spreadShare = 5
	leastSpread = 200 * time.Millisecond
)

// Fail answers a request with an error, in the dialect of its endpoint.
func Fail(w http.ResponseWriter, r *http.Request, e *schema.Error) { writeError(w, e, errorsFor(r)) }

// showRequestID sets the header that clients of other dialects read for the id of a
// request.
func showRequestID(header http.Header) { header["Request-Id"] = header["X-Request-Id"] }

// writeError answers with an error. It has the unified body, or the result of write.
func writeError(w http.ResponseWriter, e *schema.Error, write errorWriter) {
	header := w.Header()
	if header["X-Router-Attempts"] == nil {
		header["X-Router-Attempts"] = attemptsText(0)
	}
	noRetry := e.NoRetry
	if wait := e.RetryAfter; wait > 0 {
		noRetry = noRetry || wait > longestWait
		if room := min(max(wait/spreadShare, leastSpread), longestWait-wait); e.Spread && room > 0 {
			wait += rand.N(room) //nolint:gosec // nobody gains by guessing it
		}
		wait = min(wait, longestWait)
		seconds := max(1, int64((wait+time.Second-1)/time.Second))
		header.Set("Retry-After", strconv.FormatInt(seconds, 10))
		// It is rounded up, because a client that retries too early is refused again.
		header.Set("Retry-After-Ms", strconv.FormatInt(int64((wait+time.Millisecond-1)/time.Millisecond), 10))
	}
	header["Link"] = helpLink(e.Code)
	if noRetry {
		header.Set("X-Should-Retry", "false")
	}
	status := e.HTTPStatus()
	if status == http.StatusUnauthorized {
		header.Set("Www-Authenticate", "Bearer")
	}
	var body []byte
	if write != nil {
		showRequestID(header)
		body = write(e, header.Get("X-Request-Id"))
	} else {
		body = e.Body()
	}
	header["Content-Type"] = contentJSON
	header["Content-Length"] = []string{strconv.Itoa(len(body))}
	w.WriteHeader(status)
	_, _ = w.Write(body) // a client that left does not need it
}

// NotFound answers a path that does not exist.
func NotFound(w http.ResponseWriter, r *http.Request) {
	var paths, all []string
	for _, d := range doors {
		// The list of all would be too long to read.
		isPart := slices.ContainsFunc(doors, func(other *door) bool {
			return strings.HasPrefix(d.path, other.path+
				"/")
		})
		if strings.HasPrefix(d.path, "/v1/") && !isPart {
			paths = append(paths, d.path)
		}
		all = append(all, d.path)
	}
	said := withHint(r, "call.no_endpoint", "method", shorten(r.Method), "path", shorten(r.URL.Path),
		"paths", strings.Join(paths, ", "))
	if near := schema.Nearest(r.URL.Path, all, 1); len(near) > 0 && said.Code == "call.no_endpoint" {
		said = say.New("call.no_endpoint_near", "method", shorten(r.Method), "path", shorten(r.URL.Path),
			"near", near[0], "paths", strings.Join(paths, ", "))
	}
	Fail(w, r, schema.NewError(schema.CodeUnknownEndpoint, said))
}

// WrongMethod answers a path that exists for other methods.
func WrongMethod(w http.ResponseWriter, r *http.Request, allow string) {
	Fail(w, r, schema.NewError(schema.CodeMethodNotAllowed, withHint(r, "call.no_method", "method", shorten(r.Method),
		"path", shorten(r.URL.Path), "allowed", allow)))
}

// withHint returns the sentence of a code. For a client of Gemini's own API, which it
// recognises by the last part of its paths, it is the one with a hint.
func withHint(r *http.Request, code say.Code, pairs ...any) say.Sentence {
	hint := say.Code("hint.gemini")
	switch r.URL.Path[strings.LastIndexByte(r.URL.Path, ':')+1:] {
	case "generateContent", "streamGenerateContent", "embedContent", "batchEmbedContents", "countTokens":
	case "predict", "predictLongRunning", "generateAnswer", "asyncBatchEmbedContent", "batchGenerateContent",
		"bidiGenerateContent":
		hint = "hint.gemini_some"
	default:
		return say.New(code, pairs...)
	}
	return say.New(code+"_hint", append(pairs, "hint", say.New(hint, "model", "{model}"))...)
}

// shorten cuts a text of a client to a length that fits a message.
func shorten(text string) string { return web.CutText(text, 120) }

// errorPagePath is the path of the page that explains the codes of errors.
const errorPagePath = "/docs/errors"

// helpLink is the header that leads from an error to the documentation of its code.
func helpLink(code string) []string {
	return []string{"<" + errorPagePath + "#" + code + `>; rel="help"`}
}

// The headers for the state of a limit.
var (
	requestHeaders = [...]string{"X-Ratelimit-Limit-Requests", "X-Ratelimit-Remaining-Requests",
		"X-Ratelimit-Reset-Requests"}
	tokenHeaders = [...]string{"X-Ratelimit-Limit-Tokens", "X-Ratelimit-Remaining-Tokens", "X-Ratelimit-Reset-Tokens"}
)

// showLimits adds the headers for the limits that apply to a request: the limit of its
// service type, its model or its instance, and the limits of its key and its tenant. Of two
// limits of requests it shows the one with less left.
func showLimits(header http.Header, limit, ofKey, tokens ratelimit.Decision) {
	if ofKey.Limit > 0 && !(limit.Limited && limit.Remaining < ofKey.Remaining) {
		limit, limit.Limited = ofKey, true
	}
	if limit.Limited {
		showLimit(header, requestHeaders, &limit)
	}
	if tokens.Limit > 0 {
		showLimit(header, tokenHeaders, &tokens)
	}
}

// showLimit adds the headers for the state of a limit. Their values share their memory.
func showLimit(header http.Header, names [3]string, d *ratelimit.Decision) {
	var memory [64]byte
	text := strconv.AppendInt(memory[:0], int64(d.Limit), 10)
	limit := len(text)
	text = strconv.AppendInt(text, int64(d.Remaining), 10)
	remaining := len(text)
	all := string(append(text, d.ResetAfter.Round(time.Millisecond).String()...))
	values := []string{all[:limit], all[limit:remaining], all[remaining:]}
	for n, name := range names {
		header[name] = values[n : n+1 : n+1]
	}
}

// noMemory says why the request gets no more memory; bytes is the amount that it needs.
func (x *exchange) noMemory(verdict memory.Verdict, bytes int64) error {
	known := overloaded(say.New("call.no_memory"))
	most := x.memory.Most()
	switch {
	case x.memory.Held()+bytes > most:
		known.Reword("call.memory_most", "size", most)
		known.NoRetry = true
	case verdict == memory.ShareUsed:
		known.Reword("call.memory_share")
	}
	return known
}

func overloaded(said say.Sentence) *schema.Error {
	known := schema.NewError(schema.CodeOverloaded, said)
	known.RetryAfter = time.Second
	return known
}

// isOverloaded reports whether an error says that the gateway has no room for a body.
func isOverloaded(err error) bool {
	var known *schema.Error
	return errors.As(err, &known) && schema.ResultOf(known.Code) == schema.ResultOverloaded
}
