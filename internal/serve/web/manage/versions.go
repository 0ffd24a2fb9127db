package manage

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/patchbay-ai/patchbay/internal/config/control"
	"github.com/patchbay-ai/patchbay/internal/config/control/versions"
	"github.com/patchbay-ai/patchbay/internal/plain/say"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
	"github.com/patchbay-ai/patchbay/internal/serve/web"
)

// versionView is a version as JSON.
type versionView struct {
	Version     int            `json:"version"`
	Current     bool           `json:"current"`
	CreatedAt   time.Time      `json:"createdAt"`
	Origin      string         `json:"origin"`
	Author      string         `json:"author"`
	Summary     string         `json:"summary"`
	Said        []say.Sentence `json:"said,omitzero"`
	ActivatedAt *time.Time     `json:"activatedAt,omitzero"`
	ActivatedBy string         `json:"activatedBy,omitzero" doc:"Who put it into force, unless another gateway did."`
	Activations []activation   `json:"activations,omitzero" doc:"All times it came into force, the latest last."`
	// Config is left out of lists.
	Config *configView `json:"config,omitzero"`
}

// Docs says more about some members than a tag has room for.
func (versionView) Docs() map[string]string {
	return map[string]string{
		"origin": "Where it comes from: file (the first one), reload (the file changed), console, api or " +
			"reset. Other words may follow.",
		"said": "The summary as codes and values, one for each change; left out where only its words are " +
			"known, because the version before it is gone.",
		"activatedAt": "When the version last came into force on this gateway; left out where that was too " +
			"long ago to be known.",
	}
}

// activation is the moment of a version's coming into force.
type activation struct {
	At       time.Time `json:"at"`
	By       string    `json:"by,omitzero"`
	Replaced int       `json:"replaced,omitzero"`
}

// Docs says more about some members than a tag has room for.
func (activation) Docs() map[string]string {
	return map[string]string{
		"replaced": "The version that was in force before; left out where that is not known. A higher number " +
			"means a rollback.",
	}
}

type configView struct {
	Services map[schema.ServiceType]serviceView `json:"services"`
	Terms    *termsBody                         `json:"terms,omitzero"`
	Settings map[string]any                     `json:"settings,omitzero"`
}

// Docs says more about some members than a tag has room for.
func (configView) Docs() map[string]string {
	return map[string]string{
		"terms": "The terms of keys, where the version has them; else those of the configuration file are in " +
			"force with it.",
		"settings": "The sections that were set by management, by their names; those of the configuration file " +
			"are in force for all others.",
	}
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
	web.PageQuery
}

// versionList describes the list of versions in the OpenAPI document.
type versionList struct{}

// Alternatives are the numbers of the versions, their details, and pages of both.
func (versionList) Alternatives() []any {
	return []any{[]int{}, []versionView{}, web.PageView[int]{}, web.PageView[versionView]{}}
}

// diffQuery names the versions that are compared.
type diffQuery struct {
	From int `json:"from" required:"true"`
	To   int `json:"to" empty:"true" doc:"The version in force if left out."`
}

// versionDiff holds the differences between two versions.
type versionDiff struct {
	From    int                  `json:"from"`
	To      int                  `json:"to"`
	Changes []control.Difference `json:"changes"`
	Text    string               `json:"text"`
}

// listVersions returns the numbers of the versions, or their details.
func (a *API) listVersions(c *web.Call, q *versionsQuery) (any, error) {
	numbers, err := a.options.Control.Versions()
	if err != nil {
		return nil, err
	}
	c.Version = a.options.Control.Version()
	p := q.Page()
	if !q.Details {
		return pageOf(p, web.OnPage(p, numbers)), nil
	}
	slices.Reverse(numbers)
	views := []versionView{}
	for _, number := range web.OnPage(p, numbers) {
		about, err := a.options.Control.About(number)
		if errors.Is(err, versions.ErrNoVersion) {
			continue // it was deleted after the numbers were listed
		}
		if err != nil {
			views = append(views, versionView{
				Version: number, Summary: say.Text("version.unreadable"),
				Said: []say.Sentence{say.New("version.unreadable")},
			})
			continue
		}
		views = append(views, a.viewVersion(about))
	}
	return pageOf(p, views), nil
}

// pageOf returns the list for a reply: a page, or without one the whole list.
func pageOf[T any](p *web.Page, shown []T) any {
	if p == nil {
		return shown
	}
	return web.PageView[T]{Content: shown, Page: *p}
}

func (a *API) currentVersion(c *web.Call) (int, error) {
	c.Version = a.options.Control.Version()
	return c.Version, nil
}

func (a *API) nextVersion(c *web.Call) (int, error) { return a.options.Control.Next(c.Context()), nil }

func (a *API) version(c *web.Call) (view versionView, err error) {
	v, err := a.load("version", c.PathValue("version"))
	if err != nil {
		return view, err
	}
	if wantsYAML(c.Request) {
		return view, sendFile(c, v.Services)
	}
	view = a.viewVersion(a.options.Control.AboutOf(v))
	view.Config = &configView{Services: viewServices(v.Services, c.Who), Settings: v.Settings.Masked()}
	if v.Terms != nil {
		terms := viewTerms(*v.Terms)
		view.Config.Terms = &terms
	}
	return view, nil
}

func (a *API) load(field, text string) (*control.Version, error) {
	number, err := versionOf(field, text)
	if err != nil {
		return nil, err
	}
	return a.options.Control.Load(number)
}

func (a *API) useVersion(c *web.Call) (changeView, error) {
	return writeVersion(c, a.options.Control.Use)
}

func (a *API) deleteVersion(c *web.Call) (changeView, error) {
	return writeVersion(c, a.options.Control.Delete)
}

func writeVersion(c *web.Call, do func(context.Context, control.Change, int) (control.Result, error)) (changeView,
	error) {
	number, err := versionOf("version", c.PathValue("version"))
	if err != nil {
		return changeView{}, err
	}
	return write(c, func(ctx context.Context, change control.Change) (control.Result, error) {
		return do(ctx, change, number)
	})
}

// diffVersions returns the changes from one version to another, by default to the one in
// force.
func (a *API) diffVersions(c *web.Call) (diff versionDiff, err error) {
	query := c.URL.Query()
	if query.Get("from") == "" {
		return diff, web.BadInput("from", "field.required")
	}
	from, err := a.load("from", query.Get("from"))
	if err != nil {
		return diff, err
	}
	to, err := a.load("to", cmp.Or(query.Get("to"), strconv.Itoa(a.options.Control.Version())))
	if err != nil {
		return diff, err
	}
	diff = versionDiff{From: from.Number, To: to.Number,
		Changes: web.NotNil(a.options.Control.CompareVersions(from, to))}
	lines := make([]string, len(diff.Changes))
	for i, d := range diff.Changes {
		lines[i] = d.Text()
	}
	diff.Text = strings.Join(lines, "\n")
	return diff, nil
}

func (a *API) backUp(c *web.Call) (backup, error) {
	path, files, err := a.options.Control.Backup(changeOf(c))
	if c.DryRun {
		c.Say("Dry run: these versions would be copied.")
	}
	c.Done("backup %s", path)
	return backup{path, files, c.DryRun}, err
}

// backup names the directory and the files of a copy of the versions.
type backup struct {
	Path   string   `json:"path"`
	Files  []string `json:"files"`
	DryRun bool     `json:"dryRun,omitzero"`
}
