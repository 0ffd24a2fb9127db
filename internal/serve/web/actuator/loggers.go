package actuator

import (
	"errors"
	"io"
	"net/http"
	"os"
	"regexp"
	"strings"

	"github.com/go-json-experiment/json"

	"github.com/patchbay-ai/patchbay/internal/access"
	"github.com/patchbay-ai/patchbay/internal/plain/say"
	"github.com/patchbay-ai/patchbay/internal/see/logs"
	"github.com/patchbay-ai/patchbay/internal/serve/web"
)

type loggerView struct {
	ConfiguredLevel *string `json:"configuredLevel"`
	EffectiveLevel  string  `json:"effectiveLevel"`
}

// loggerList is every logger that has written something or has a level.
type loggerList struct {
	Levels  []string              `json:"levels"`
	Loggers map[string]loggerView `json:"loggers"`
	Groups  loggerGroups          `json:"groups"`
}

// loggerGroups is a member that tools expect; the gateway has no groups.
type loggerGroups struct{}

func (a *API) logger(name string) loggerView {
	level, own := a.options.Levels.Level(name)
	view := loggerView{EffectiveLevel: logs.LevelName(level)}
	if own {
		view.ConfiguredLevel = &view.EffectiveLevel
	}
	return view
}

func (a *API) loggers(*web.Call) (loggerList, error) {
	loggers := map[string]loggerView{}
	for _, name := range a.options.Levels.Names() {
		loggers[name] = a.logger(name)
	}
	return loggerList{logs.LevelNames(), loggers, loggerGroups{}}, nil
}

// loggerName matches the names of loggers, with dots between their parts.
var loggerName = regexp.MustCompile(`^[\w$-]+(\.[\w$-]+)*$`)

const longestLogger = 200

// loggerOf returns the name of the logger in the path, and false if no logger can have
// that name.
func loggerOf(r *http.Request) (string, bool) {
	name := r.PathValue("name")
	if strings.EqualFold(name, logs.Root) {
		name = logs.Root
	}
	return name, len(name) <= longestLogger && loggerName.MatchString(name)
}

// showLogger shows a logger that has not written anything yet with the level that it would
// have.
func (a *API) showLogger(c *web.Call) (loggerView, error) {
	name, ok := loggerOf(c.Request)
	if !ok {
		return loggerView{}, refuse(http.StatusNotFound, "")
	}
	return a.logger(name), nil
}

// loggerRequest is the body of a change; no level, or null, clears it.
type loggerRequest struct {
	ConfiguredLevel *string `json:"configuredLevel" enum:"OFF,ERROR,WARN,INFO,DEBUG,TRACE"`
}

// readLevel decodes the body of a change. Unknown members are refused, because a typing
// error in the name of the member would clear the level.
func readLevel(w http.ResponseWriter, r *http.Request) (given *loggerRequest, err error) {
	const largest = 4 << 10
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, largest))
	var tooLarge *http.MaxBytesError
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded):
		w.Header().Set("Connection", "close") // the unread rest must not be taken for a request
		return nil, refuse(http.StatusRequestTimeout, "The body did not arrive in time.")
	case errors.As(err, &tooLarge):
		return nil, refuse(http.StatusRequestEntityTooLarge, "The body is larger than 4 KiB.")
	case err != nil || json.Unmarshal(body, &given, json.RejectUnknownMembers(true)) != nil || given == nil:
		return nil, refuse(http.StatusBadRequest,
			`The body must be a JSON object such as {"configuredLevel":"DEBUG"}, `+
				"or null in place of the level to clear it.")
	}
	return given, nil
}

// SetLogger answers POST /actuator/loggers/{name}.
func (a *API) SetLogger(w http.ResponseWriter, r *http.Request) {
	name, ok := loggerOf(r)
	if !ok {
		NotFound(w, r)
		return
	}
	dry, err := web.Flag(r, "dryRun")
	if dry || err != nil {
		fail(w, r, refuse(http.StatusBadRequest, "dryRun is not available here; nothing was changed."))
		return
	}
	isAdmin := web.IdentityOf(r).Role.Holds(access.ManageAccessLog)
	if isAccess(name) && !isAdmin {
		web.Refuse(w, http.StatusForbidden, say.New("manage.access_log", "permission", access.ManageAccessLog))
		return
	}
	given, err := readLevel(w, r)
	if err == nil && name == logs.Root && !isAdmin {
		err = a.keepAccess()
	}
	if err == nil {
		err = a.setLevel(name, given.ConfiguredLevel)
	}
	if err != nil {
		fail(w, r, err)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

// isAccess reports whether a name belongs to the access log or to a part of it.
func isAccess(name string) bool {
	first, _, _ := strings.Cut(name, ".")
	return strings.EqualFold(first, logs.Access)
}

// keepAccess sets the access log to its present level. Otherwise it would inherit a change
// of the root level, also from a caller who may not change the level of the access log.
func (a *API) keepAccess() error {
	level, own := a.options.Levels.Level(logs.Access)
	if own {
		return nil
	}
	return refusedLevel(a.options.Levels.Set(logs.Access, level))
}

// setLevel sets or clears the level of a logger.
func (a *API) setLevel(name string, wanted *string) error {
	if wanted == nil {
		return refusedLevel(a.options.Levels.Clear(name))
	}
	level, err := logs.ParseLevel(*wanted)
	if err == nil {
		err = a.options.Levels.Set(name, level)
	}
	return refusedLevel(err)
}

// refusedLevel turns an error about a level into an error of the request; nil stays nil.
func refusedLevel(err error) error {
	if err != nil {
		return web.Invalid("", say.From(err))
	}
	return nil
}
