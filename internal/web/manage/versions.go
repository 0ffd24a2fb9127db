package manage

import (
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/patchbay-ai/patchbay/internal/control"
	"github.com/patchbay-ai/patchbay/internal/schema"
	"github.com/patchbay-ai/patchbay/internal/web"
)

// versionView is how a version is read.
type versionView struct {
	Version   int       `json:"version"`
	Current   bool      `json:"current"`
	CreatedAt time.Time `json:"createdAt"`
	Origin    string    `json:"origin"`
	Author    string    `json:"author"`
	Summary   string    `json:"summary"`
	// Config is left out of lists.
	Config *configView `json:"config,omitzero"`
}

type configView struct {
	Services map[schema.ServiceType]serviceView `json:"services"`
}

func (a *API) viewVersion(v *control.Version) versionView {
	return versionView{
		Version: v.Number, Current: v.Number == a.options.Control.Version(), CreatedAt: v.CreatedAt.UTC(),
		Origin: v.Origin, Author: v.Author, Summary: v.Summary,
	}
}

// Versions answers GET /api/config/version: the numbers, or with ?details=true
// what is known about each.
func (a *API) Versions(w http.ResponseWriter, r *http.Request) {
	numbers, err := a.options.Control.Versions()
	if err != nil {
		a.fail(w, err)
		return
	}
	detailed, err := flag(r, "details")
	if err != nil {
		a.fail(w, err)
		return
	}
	var data any
	if detailed {
		data, err = a.detailed(r, numbers)
	} else {
		data, err = list(r, numbers)
	}
	if err != nil {
		a.fail(w, err)
		return
	}
	tag(w, a.options.Control.Version())
	web.Succeed(w, http.StatusOK, "The stored versions.", data)
}

// detailed lists the versions with what is known about them, the newest first.
func (a *API) detailed(r *http.Request, numbers []int) (any, error) {
	p, err := pageOf(r)
	if err != nil {
		return nil, err
	}
	newest := make([]int, len(numbers))
	for i, number := range numbers {
		newest[len(numbers)-1-i] = number
	}
	if p != nil {
		newest = cut(p, newest)
	}
	views := []versionView{}
	for _, number := range newest {
		v, err := a.options.Control.Load(number)
		if errors.Is(err, control.ErrNoVersion) {
			continue // deleted meanwhile
		}
		if err != nil {
			views = append(views, versionView{Version: number, Summary: "this version cannot be read"})
			continue
		}
		views = append(views, a.viewVersion(v))
	}
	if p == nil {
		return views, nil
	}
	return struct {
		Content []versionView `json:"content"`
		Page    page          `json:"page"`
	}{views, *p}, nil
}

// CurrentVersion answers GET /api/config/version/current.
func (a *API) CurrentVersion(w http.ResponseWriter, _ *http.Request) {
	version := a.options.Control.Version()
	tag(w, version)
	web.Succeed(w, http.StatusOK, "The version in force.", version)
}

// Version answers GET /api/config/version/{version}.
func (a *API) Version(w http.ResponseWriter, r *http.Request) {
	v, err := a.load("version", r.PathValue("version"))
	if err != nil {
		a.fail(w, err)
		return
	}
	view := a.viewVersion(v)
	view.Config = &configView{Services: viewServices(v.Services, web.IdentityOf(r))}
	web.Succeed(w, http.StatusOK, "The version and its configuration.", view)
}

func (a *API) load(field, text string) (*control.Version, error) {
	number, err := versionOf(field, text)
	if err != nil {
		return nil, err
	}
	return a.options.Control.Load(number)
}

// ApplyVersion answers POST /api/config/version/apply/{version}.
func (a *API) ApplyVersion(w http.ResponseWriter, r *http.Request) {
	a.writeVersion(w, r, "The version is in force.", a.options.Control.Use)
}

// RollbackVersion answers POST /api/config/version/rollback/{version}.
func (a *API) RollbackVersion(w http.ResponseWriter, r *http.Request) {
	a.writeVersion(w, r, "The configuration was rolled back to the version.", a.options.Control.Use)
}

// DeleteVersion answers DELETE /api/config/version/{version}.
func (a *API) DeleteVersion(w http.ResponseWriter, r *http.Request) {
	a.writeVersion(w, r, "The version was deleted.", a.options.Control.Delete)
}

func (a *API) writeVersion(w http.ResponseWriter, r *http.Request, message string, write func(control.Change, int) (control.Result, error)) {
	number, err := versionOf("version", r.PathValue("version"))
	if err != nil {
		a.fail(w, err)
		return
	}
	change, err := changeOf(r)
	if err != nil {
		a.fail(w, err)
		return
	}
	result, err := write(change, number)
	if err != nil {
		a.fail(w, err)
		return
	}
	a.changed(w, http.StatusOK, message, viewOf(result, change))
}

// DiffVersions answers GET /api/config/version/diff: what changed from one
// version to another, by default to the one in force.
func (a *API) DiffVersions(w http.ResponseWriter, r *http.Request) {
	query := r.URL.Query()
	if query.Get("from") == "" {
		a.fail(w, wrong("from", "is required"))
		return
	}
	from, err := a.load("from", query.Get("from"))
	if err != nil {
		a.fail(w, err)
		return
	}
	var to *control.Version
	if text := query.Get("to"); text != "" {
		to, err = a.load("to", text)
	} else {
		to, err = a.options.Control.Load(a.options.Control.Version())
	}
	if err != nil {
		a.fail(w, err)
		return
	}
	differences := control.Compare(from.Services, to.Services)
	if differences == nil {
		differences = []control.Difference{}
	}
	lines := make([]string, len(differences))
	for i, d := range differences {
		lines[i] = d.Text()
	}
	web.Succeed(w, http.StatusOK, "What changed between the versions.", struct {
		From    int                  `json:"from"`
		To      int                  `json:"to"`
		Changes []control.Difference `json:"changes"`
		Text    string               `json:"text"`
	}{from.Number, to.Number, differences, strings.Join(lines, "\n")})
}

// Backup answers POST /api/config/merge/backup.
func (a *API) Backup(w http.ResponseWriter, r *http.Request) {
	change, err := changeOf(r)
	if err != nil {
		a.fail(w, err)
		return
	}
	path, files, err := a.options.Control.Backup(change)
	if err != nil {
		a.fail(w, err)
		return
	}
	message := "All versions were copied."
	if change.DryRun {
		message = "Dry run: these versions would be copied."
	}
	record := web.RecordOf(w)
	record.Change, record.DryRun = "backup "+path, change.DryRun
	web.Succeed(w, http.StatusOK, message, struct {
		Path   string   `json:"path"`
		Files  []string `json:"files"`
		DryRun bool     `json:"dryRun,omitzero"`
	}{path, files, change.DryRun})
}
