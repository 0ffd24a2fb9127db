package manage

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/patchbay-ai/patchbay/internal/config"
	"github.com/patchbay-ai/patchbay/internal/config/control"
	"github.com/patchbay-ai/patchbay/internal/config/control/versions"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
	"github.com/patchbay-ai/patchbay/internal/serve/access"
	"github.com/patchbay-ai/patchbay/internal/serve/web"
)

// Request is a request to the management API, with what all operations need.
type Request struct {
	*http.Request
	who access.Identity
	// change says who wants a write and under which conditions; body is its body.
	change control.Change
	body   []byte
}

// readRequest reads what an operation needs. It reads the body before the operation
// locks the configuration, so that a slow client does not block other changes.
func readRequest(w http.ResponseWriter, r *http.Request) (*Request, error) {
	q := &Request{Request: r, who: web.IdentityOf(r)}
	if r.Method == http.MethodGet || r.Method == http.MethodHead {
		return q, nil
	}
	var err error
	q.change = control.Change{Origin: originOf(r), Author: q.who.Name}
	if q.change.DryRun, err = flag(r, dryRunFlag); err != nil || r.Method == http.MethodDelete {
		return q, err
	}
	q.body, err = web.ReadBody(w, r)
	return q, err
}

// clientHeader is where a client says what it is; the console says "console".
const clientHeader = "X-Patchbay-Client"

// originOf returns where a change comes from, as far as its client says it.
func originOf(r *http.Request) string {
	if r.Header.Get(clientHeader) == "console" {
		return control.FromConsole
	}
	return control.FromAPI
}

// write makes a change that creates, applies or deletes a version. Only such changes
// obey If-Match.
func (q *Request) write(do func(context.Context, control.Change) (control.Result, error)) (control.Result, error) {
	var err error
	change := q.change
	if change.IfVersions, err = ifMatch(q.Header.Values("If-Match")); err != nil {
		return control.Result{}, err
	}
	return do(q.Context(), change)
}

// edit changes the configuration.
func (a *API) edit(q *Request, edit func(*config.Document) error) (control.Result, error) {
	return q.write(func(ctx context.Context, change control.Change) (control.Result, error) {
		return a.options.Control.Apply(ctx, change, edit)
	})
}

// dryRunFlag is the query parameter that makes a write only validate.
const dryRunFlag = "dryRun"

// flag is web.Flag with an error that names the parameter.
func flag(r *http.Request, name string) (bool, error) {
	on, err := web.Flag(r, name)
	if err != nil {
		return false, invalidField(name, "%v", err)
	}
	return on, nil
}

// versionTag matches a version, as a number or an entity tag.
var versionTag = regexp.MustCompile(`^([1-9][0-9]{0,8}|(W/)?"[1-9][0-9]{0,8}")$`)

// ifMatch parses If-Match: the versions that a change may be based on, as numbers or
// entity tags. It returns none where any version will do.
func ifMatch(lines []string) ([]int, error) {
	var versions []int
	text := strings.TrimSpace(strings.Join(lines, ","))
	if text == "*" {
		return nil, nil
	}
	for tag := range strings.SplitSeq(text, ",") {
		if tag = strings.TrimSpace(tag); tag == "" {
			continue // lists may have empty members
		}
		number, err := strconv.Atoi(strings.Trim(strings.TrimPrefix(tag, "W/"), `"`))
		if err != nil || !versionTag.MatchString(tag) {
			return nil, invalidField("If-Match", "want the number of a version, or several with commas between them")
		}
		versions = append(versions, number)
	}
	return versions, nil
}

// serviceOf parses the service type in the path.
func serviceOf(q *Request) (schema.ServiceType, error) {
	serviceType, err := schema.ParseServiceType(web.Shorten(q.PathValue("serviceType")))
	if err != nil && q.Method == http.MethodPost {
		return 0, invalidField("serviceType", "%v", err)
	}
	if err != nil {
		return 0, fmt.Errorf("serviceType: %w: %w", errNotFound, err)
	}
	return serviceType, nil
}

// versionOf parses the number of a version. A whole number that no version can have is
// not found; anything else is invalid.
func versionOf(field, text string) (int, error) {
	digits := strings.TrimPrefix(text, "-")
	isNoDigit := func(r rune) bool { return r < '0' || r > '9' }
	if digits == "" || strings.ContainsFunc(digits, isNoDigit) {
		return 0, invalidField(field, "want the number of a version, found %q", web.Shorten(text))
	}
	number, err := strconv.Atoi(text)
	if err != nil || number < 1 {
		return 0, fmt.Errorf("%w: %s", versions.ErrNoVersion, web.Shorten(text))
	}
	return number, nil
}

// pageQuery asks for a page of a list.
type pageQuery struct {
	Page int `json:"page" minimum:"1" maximum:"1073741824" doc:"With page or size the data is {content, page}."`
	Size int `json:"size" minimum:"1" maximum:"100"`
}

// listOf describes the data of a list in the OpenAPI document: all of it, or with page
// or size a page of it.
type listOf[T any] struct{}

// Alternatives are the forms of the list.
func (listOf[T]) Alternatives() []any { return []any{[]T{}, pageView[T]{}} }

// page is the part of a list that a request asks for.
type page struct {
	Number        int `json:"number"`
	Size          int `json:"size"`
	TotalElements int `json:"totalElements"`
	TotalPages    int `json:"totalPages"`
}

// pageView is the data of a reply that shows a page of a list.
type pageView[T any] struct {
	Content []T  `json:"content"`
	Page    page `json:"page"`
}

// list returns the data of a reply with a list: all of it, or the page that the request
// asks for.
func list[T any](q *Request, all []T) (any, error) {
	if all == nil {
		all = []T{}
	}
	p, err := pageOf(q)
	if err != nil || p == nil {
		return all, err
	}
	content := onPage(p, all)
	return pageView[T]{content, *p}, nil
}

// onPage returns the elements on the page, and notes in it how many there are in all.
func onPage[T any](p *page, all []T) []T {
	p.TotalElements, p.TotalPages = len(all), p.pagesOf(len(all))
	if p.Number > p.TotalPages {
		return []T{}
	}
	start := (p.Number - 1) * p.Size
	return all[start:min(start+p.Size, len(all))]
}

// includes tells whether the element at an index is on the page.
func (p *page) includes(index int) bool { return index/p.Size == p.Number-1 }

// pagesOf returns how many pages a list has.
func (p *page) pagesOf(elements int) int { return (elements + p.Size - 1) / p.Size }

// streamedList is a reply whose data is a list that is written while it is read. The
// function returns the message, which is known only then and is written last.
type streamedList[T any] func(visit func(T) bool) (message string)

// MarshalJSONTo writes the envelope with the list.
func (each streamedList[T]) MarshalJSONTo(to *jsontext.Encoder) error {
	failed := errors.Join(to.WriteToken(jsontext.BeginObject),
		to.WriteToken(jsontext.String("success")), to.WriteToken(jsontext.True),
		to.WriteToken(jsontext.String("data")), to.WriteToken(jsontext.BeginArray))
	message := each(func(element T) bool {
		if failed == nil {
			failed = json.MarshalEncode(to, element)
		}
		return failed == nil
	})
	return errors.Join(failed, to.WriteToken(jsontext.EndArray),
		to.WriteToken(jsontext.String("message")), to.WriteToken(jsontext.String(message)), to.WriteToken(jsontext.EndObject))
}

// pageOf parses the query parameters page and size. It returns nil if neither is given.
func pageOf(q *Request) (*page, error) {
	const most, usual = 100, 20
	query := q.URL.Query()
	if !query.Has("page") && !query.Has("size") {
		return nil, nil // no page is asked for
	}
	p := &page{Number: 1, Size: usual}
	for _, part := range []struct {
		name string
		to   *int
		most int
	}{{"page", &p.Number, 1 << 30}, {"size", &p.Size, most}} {
		if !query.Has(part.name) {
			continue
		}
		number, err := strconv.Atoi(query.Get(part.name))
		if err != nil || number < 1 || number > part.most {
			return nil, invalidField(part.name, "want a number from 1 to %d", part.most)
		}
		*part.to = number
	}
	return p, nil
}
