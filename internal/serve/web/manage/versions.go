package manage

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/patchbay-ai/patchbay/internal/config/control"
	"github.com/patchbay-ai/patchbay/internal/config/control/versions"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
	"github.com/patchbay-ai/patchbay/internal/see/say"
	"github.com/patchbay-ai/patchbay/internal/serve/web"
)

// versionView is a version as JSON.
type versionView struct {
	Version     int            `json:"version"`
	Current     bool           `json:"current"`
	CreatedAt   time.Time      `json:"createdAt"`
	Origin      string         `json:"origin" doc:"Where it comes from: file (the first one), reload (the file changed), console, api or reset. Other words may follow."`
	Author      string         `json:"author"`
	Summary     string         `json:"summary"`
	Said        []say.Sentence `json:"said,omitzero" doc:"The summary as codes and values, one for each change; left out where only its words are known, because the version before it is gone."`
	ActivatedAt *time.Time     `json:"activatedAt,omitzero" doc:"When the version last came into force on this gateway; left out where that was too long ago to be known."`
	ActivatedBy string         `json:"activatedBy,omitzero" doc:"Who put it into force then; left out where another gateway did."`
	Activations []activation   `json:"activations,omitzero" doc:"All times at which it came into force, the latest last."`
	// Config is left out of lists.
	Config *configView `json:"config,omitzero"`
}

// activation is a moment at which a version came into force.
type activation struct {
	At       time.Time `json:"at"`
	By       string    `json:"by,omitzero"`
	Replaced int       `json:"replaced,omitzero" doc:"The version that was in force before; left out where that is not known. A higher number means a rollback."`
}

type configView struct {
	Services map[schema.ServiceType]serviceView `json:"services"`
	Terms    *termsBody                         `json:"terms,omitzero" doc:"The terms of keys, where the version has them; else those of the configuration file are in force with it."`
}

func (a *API) viewVersion(v control.About) versionView {
	view := versionView{
		Version: v.Number, Current: v.Number == a.options.Control.Version(), CreatedAt: v.CreatedAt.UTC(),
		Origin: v.Origin, Author: v.Author, Summary: v.Summary, Said: v.Said,
	}
	replaced := 0
	for _, made := range a.options.Control.Activations() {
		if made.Version == v.Number {
			view.Activations = append(view.Activations, activation{made.At, made.By, replaced})
			view.ActivatedAt, view.ActivatedBy = &made.At, made.By
		}
		replaced = made.Version
	}
	return view
}

// versionsQuery asks for a list of versions.
type versionsQuery struct {
	Details web.Switch `json:"details" doc:"With time, origin, author and summary, the newest first."`
	pageQuery
}

// versionList describes the list of versions in the OpenAPI document.
type versionList struct{}

// Alternatives are the numbers of the versions, what is known about them, and
// pages of both.
func (versionList) Alternatives() []any {
	return []any{[]int{}, []versionView{}, pageView[int]{}, pageView[versionView]{}}
}

// diffQuery names the versions that are compared.
type diffQuery struct {
	From int `json:"from" required:"true"`
	To   int `json:"to" empty:"true" doc:"The version in force if left out."`
}

// versionDiff is what changed between two versions.
type versionDiff struct {
	From    int                  `json:"from"`
	To      int                  `json:"to"`
	Changes []control.Difference `json:"changes"`
	Text    string               `json:"text"`
}

// Versions answers GET /api/config/version: the numbers, or with ?details=true
// what is known about each.
func (a *API) Versions(q *Request) (Reply, error) {
	numbers, err := a.options.Control.Versions()
	if err != nil {
		return Reply{}, err
	}
	detailed, err := flag(q.Request, "details")
	if err != nil {
		return Reply{}, err
	}
	answer := Reply{message: "The stored versions.", version: a.options.Control.Version()}
	if detailed {
		answer.data, err = a.detailed(q, numbers)
	} else {
		answer.data, err = list(q, numbers)
	}
	return answer, err
}

// detailed lists the versions with what is known about them, the newest first.
func (a *API) detailed(q *Request, numbers []int) (any, error) {
	p, err := pageOf(q)
	if err != nil {
		return nil, err
	}
	newest := make([]int, len(numbers))
	for i, number := range numbers {
		newest[len(numbers)-1-i] = number
	}
	if p != nil {
		newest = onPage(p, newest)
	}
	views := []versionView{}
	for _, number := range newest {
		about, err := a.options.Control.About(number)
		if errors.Is(err, versions.ErrNoVersion) {
			continue // it was deleted after the numbers were listed
		}
		if err != nil {
			views = append(views, versionView{Version: number, Summary: say.Text("version.unreadable"), Said: []say.Sentence{say.New("version.unreadable")}})
			continue
		}
		views = append(views, a.viewVersion(about))
	}
	if p == nil {
		return views, nil
	}
	return pageView[versionView]{views, *p}, nil
}

// CurrentVersion answers GET /api/config/version/current.
func (a *API) CurrentVersion(*Request) (Reply, error) {
	version := a.options.Control.Version()
	return Reply{message: "The version in force.", data: version, version: version}, nil
}

// NextVersion answers GET /api/config/version/next.
func (a *API) NextVersion(q *Request) (Reply, error) {
	return Reply{message: "The number of the next version.", data: a.options.Control.Next(q.Context())}, nil
}

// Version answers GET /api/config/version/{version}.
func (a *API) Version(q *Request) (Reply, error) {
	v, err := a.load("version", q.PathValue("version"))
	if err != nil {
		return Reply{}, err
	}
	if wantsYAML(q.Request) {
		file, err := asFile(v.Services, q.who)
		return Reply{document: file}, err
	}
	view := a.viewVersion(a.options.Control.AboutOf(v))
	view.Config = &configView{Services: viewServices(v.Services, q.who)}
	if v.Terms != nil {
		terms := viewTerms(*v.Terms)
		view.Config.Terms = &terms
	}
	return Reply{message: "The version and its configuration.", data: view}, nil
}

func (a *API) load(field, text string) (*control.Version, error) {
	number, err := versionOf(field, text)
	if err != nil {
		return nil, err
	}
	return a.options.Control.Load(number)
}

// ApplyVersion answers POST /api/config/version/apply/{version}.
func (a *API) ApplyVersion(q *Request) (Reply, error) {
	return writeVersion(q, "The version is in force.", a.options.Control.Use)
}

// RollbackVersion answers POST /api/config/version/rollback/{version}.
func (a *API) RollbackVersion(q *Request) (Reply, error) {
	return writeVersion(q, "The configuration was rolled back to the version.", a.options.Control.Use)
}

// DeleteVersion answers DELETE /api/config/version/{version}.
func (a *API) DeleteVersion(q *Request) (Reply, error) {
	return writeVersion(q, "The version was deleted.", a.options.Control.Delete)
}

func writeVersion(q *Request, message string, write func(context.Context, control.Change, int) (control.Result, error)) (Reply, error) {
	number, err := versionOf("version", q.PathValue("version"))
	if err != nil {
		return Reply{}, err
	}
	result, err := q.write(func(ctx context.Context, change control.Change) (control.Result, error) {
		return write(ctx, change, number)
	})
	return changed(http.StatusOK, message, viewOf(result, q.change)), err
}

// DiffVersions answers GET /api/config/version/diff: what changed from one
// version to another, by default to the one in force.
func (a *API) DiffVersions(q *Request) (Reply, error) {
	query := q.URL.Query()
	if query.Get("from") == "" {
		return Reply{}, invalidField("from", "is required")
	}
	from, err := a.load("from", query.Get("from"))
	if err != nil {
		return Reply{}, err
	}
	var to *control.Version
	if text := query.Get("to"); text != "" {
		to, err = a.load("to", text)
	} else {
		to, err = a.options.Control.Load(a.options.Control.Version())
	}
	if err != nil {
		return Reply{}, err
	}
	differences := notNil(a.options.Control.CompareVersions(from, to))
	lines := make([]string, len(differences))
	for i, d := range differences {
		lines[i] = d.Text()
	}
	return Reply{message: "What changed between the versions.", data: versionDiff{from.Number, to.Number, differences, strings.Join(lines, "\n")}}, nil
}

// Backup answers POST /api/config/merge/backup.
func (a *API) Backup(q *Request) (Reply, error) {
	path, files, err := a.options.Control.Backup(q.change)
	message := "All versions were copied."
	if q.change.DryRun {
		message = "Dry run: these versions would be copied."
	}
	return Reply{message: message, change: "backup " + path, data: backup{path, files, q.change.DryRun}}, err
}

// backup is where the versions were copied to.
type backup struct {
	Path   string   `json:"path"`
	Files  []string `json:"files"`
	DryRun bool     `json:"dryRun,omitzero"`
}
