package simulator

import (
	"io"
	"net/http"
	"slices"
	"strings"
)

// maxBody bounds the memory that a client can make the simulator use.
const maxBody = 256 << 20

// received is the journal's part of a body: its first bytes, as many as the journal
// wants, and its length.
type received struct {
	first  []byte
	length int
}

// serve handles one request.
func (b *Backend) serve(w http.ResponseWriter, r *http.Request, routes *http.ServeMux) {
	b.handlers.Add(1)
	defer b.handlers.Done()
	x := &exchange{ResponseWriter: w, backend: b, request: r, dialect: dialectOf(r.URL.Path), serial: b.served.Add(1)}
	if b.listener.down.Load() { // the connection is older than the outage
		x.resetNow()
		return
	}
	notes := b.requests
	if isProbe(r) {
		notes = b.probes
	}
	entry := notes.arrive(r)
	defer func() { notes.end(entry, x.left) }()
	defer x.leaveEngine()

	body, err := x.receive(notes.bodyCap)
	admitted := b.admits(x)
	if err == nil && admitted {
		x.step = b.choose(x)
	}
	// The journal is told after the step was chosen: a test that waited for this request
	// can then script the next one.
	notes.receive(entry, body)
	switch {
	case err != nil:
		x.abandon()
	case !admitted:
		x.fail(http.StatusUnauthorized, apiError{
			message: "Incorrect API key provided: " + x.dialect.key(x) + ".",
			kind:    "invalid_request_error",
			code:    "invalid_api_key",
		})
	default:
		b.answer(x, routes)
	}
	if x.broken {
		// This is the only way to make net/http end a connection without completing
		// the answer.
		panic(http.ErrAbortHandler)
	}
}

func (b *Backend) choose(x *exchange) Step {
	if isProbe(x.request) {
		return b.choice.forProbe()
	}
	return b.choice.forRequest(x)
}

// answer carries out the fault of the step, or lets the service answer.
func (b *Backend) answer(x *exchange, routes *http.ServeMux) {
	step := &x.step
	if step.Hang {
		x.hold()
		return
	}
	if !x.pause(step.HeaderDelay) {
		return
	}
	switch {
	case step.Reset:
		x.resetNow()
	case step.Raw != "":
		x.writeRaw()
	case step.replaces():
		x.replace()
	case x.isTooLong():
		x.refuseLength()
	default:
		routes.ServeHTTP(x, x.request)
	}
}

// isProbe reports whether a request is a probe, such as a health check.
func isProbe(r *http.Request) bool {
	return r.Method == http.MethodGet || r.Method == http.MethodHead || r.URL.Path == ollamaShowPath
}

// receive reads the whole body before anything else is done: net/http watches
// for the client's leaving only from then on. Forms may be larger than memory
// and are read as they come; of them, only the first bytes are reported.
func (x *exchange) receive(first int) (received, error) {
	if boundary := formBoundary(x.request); boundary != "" {
		var body received
		var err error
		x.form, body, err = readForm(x.request, boundary, first)
		return body, err
	}
	body, err := readBody(x.request)
	x.body = body
	return received{body, len(body)}, err
}

func readBody(r *http.Request) ([]byte, error) {
	if r.ContentLength > 0 && r.ContentLength <= maxBody {
		body := make([]byte, r.ContentLength)
		n, err := io.ReadFull(r.Body, body)
		return body[:n], err
	}
	return io.ReadAll(io.LimitReader(r.Body, maxBody))
}

func (b *Backend) admits(x *exchange) bool {
	path := x.request.URL.Path
	return b.options.Key == "" || path == "/health" || strings.HasPrefix(path, imagesPath) ||
		x.dialect.key(x) == b.options.Key
}

// knows reports whether the backend serves a model of this name.
func (b *Backend) knows(model string) bool {
	if len(b.options.Models) == 0 || slices.Contains(b.options.Models, model) || b.hasAdapter(model) {
		return true
	}
	_, found := b.options.Behaviours[model]
	return found
}
