package actuator

import (
	"net/http"
	"regexp"
	"strings"

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

// setLogger sets or clears the level of a logger.
func (a *API) setLogger(c *web.Call, wanted *loggerRequest) (any, error) {
	name, ok := loggerOf(c.Request)
	if !ok {
		return nil, refuse(http.StatusNotFound, "")
	}
	isAdmin := c.Who.Role.Holds(access.ManageAccessLog)
	if isAccess(name) && !isAdmin {
		c.Instead = func(w http.ResponseWriter) { // in the form in which the gate refuses
			web.Refuse(w, http.StatusForbidden, say.New("manage.access_log", "permission", access.ManageAccessLog))
		}
		return nil, nil
	}
	if name == logs.Root && !isAdmin {
		if err := a.keepAccess(); err != nil {
			return nil, err
		}
	}
	c.Instead = func(w http.ResponseWriter) { w.WriteHeader(c.Status) }
	return nil, a.setLevel(name, wanted.ConfiguredLevel)
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
