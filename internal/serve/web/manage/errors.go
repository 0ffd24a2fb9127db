package manage

import (
	"errors"
	"net/http"

	"github.com/patchbay-ai/patchbay/internal/access"
	"github.com/patchbay-ai/patchbay/internal/config"
	"github.com/patchbay-ai/patchbay/internal/config/control"
	"github.com/patchbay-ai/patchbay/internal/config/control/versions"
	"github.com/patchbay-ai/patchbay/internal/plain/say"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
	"github.com/patchbay-ai/patchbay/internal/serve/web"
	"github.com/patchbay-ai/patchbay/internal/store/durable"
)

// statusOf returns the status of an error of the management API.
func statusOf(err error) int {
	var refused *web.RequestError
	var problems config.Problems
	switch {
	case errors.As(err, &refused):
		return refused.Status
	case errors.As(err, &problems), errors.Is(err, control.ErrCurrent), errors.Is(err, versions.ErrForged),
		errors.Is(err, access.ErrExists), errors.Is(err, access.ErrStatic), errors.Is(err, access.ErrRevoked):
		return http.StatusBadRequest
	case errors.Is(err, versions.ErrNoVersion), errors.Is(err, access.ErrUnknown):
		return http.StatusNotFound
	case errors.Is(err, control.ErrMoved):
		return http.StatusConflict
	case errors.Is(err, control.ErrUnavailable):
		return http.StatusServiceUnavailable
	}
	return http.StatusInternalServerError
}

// fail answers with an error. An error inside the gateway is logged, and the caller
// learns only that it happened.
func (a *API) fail(w http.ResponseWriter, _ *http.Request, err error) {
	status := statusOf(err)
	said := saidOf(err)
	if status == http.StatusInternalServerError && !a.options.isOffline {
		a.options.Log.Error("a management operation failed", "request_id", web.RecordOf(w).RequestID, "error", err)
		said = say.All(say.New("manage.failed"))
		switch isSave := errors.Is(err, control.ErrSave) || errors.Is(err, access.ErrSave); {
		case isSave && durable.IsFull(err):
			said = say.All(say.New("manage.disk_full"))
		case isSave:
			said = say.All(say.New("manage.unsaved"))
		}
	}
	web.WriteJSON(w, status, web.Fault{Message: say.Join(said), Said: web.SaidTo(w, said...)})
}

// saidOf returns the sentences of an error, with the fields that they are about.
func saidOf(err error) []say.Sentence {
	var problems config.Problems
	if !errors.As(err, &problems) {
		problems = config.Problems{{Said: say.From(err)}}
	}
	const longest = 2000
	var said []say.Sentence
	for left := longest; len(problems) > 0 && left >= 0; problems = problems[1:] {
		next := problems[0].Sentence().Cut(left)
		said = append(said, next)
		left -= len(next.String() + "; ")
	}
	return say.All(said...)
}

// NotFound answers a path under /api that does not exist.
func NotFound(w http.ResponseWriter, r *http.Request) {
	said := web.NoOperation(r)
	switch r.URL.Path {
	case "/api/chat", "/api/generate", "/api/embed", "/api/embeddings", "/api/tags", "/api/show", "/api/ps",
		"/api/pull", "/api/version":
		said.Code = "manage.no_ollama"
	}
	web.Refuse(w, http.StatusNotFound, said)
}

// WrongMethod answers a path under /api that exists for other methods.
func WrongMethod(w http.ResponseWriter, r *http.Request, allow string) {
	web.Refuse(w, http.StatusMethodNotAllowed, web.NoMethod(r, allow))
}

// Fail answers a request that is malformed, or made its handler panic.
func Fail(w http.ResponseWriter, e *schema.Error) {
	web.Refuse(w, e.HTTPStatus(), e.Said)
}
