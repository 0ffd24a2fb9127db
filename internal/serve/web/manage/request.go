package manage

import (
	"context"
	"errors"
	"net/http"
	"regexp"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/patchbay-ai/patchbay/internal/access"
	"github.com/patchbay-ai/patchbay/internal/config"
	"github.com/patchbay-ai/patchbay/internal/config/control"
	"github.com/patchbay-ai/patchbay/internal/config/control/versions"
	"github.com/patchbay-ai/patchbay/internal/plain/say"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
	"github.com/patchbay-ai/patchbay/internal/serve/web"
)

// clientHeader is the header with the name of the client; the console sends "console".
const clientHeader = "X-Patchbay-Client"

// changeOf returns who wants a write, and where it comes from as far as its client says it.
func changeOf(c *web.Call) control.Change {
	change := control.Change{Origin: control.FromAPI, Author: c.Who.String(), DryRun: c.DryRun,
		May: func(right string) bool { return c.Who.Role.Holds(settingsRight(right)) }}
	if c.Who.Role != access.Admin {
		change.Check = refuseAllowances
	}
	if c.Header.Get(clientHeader) == "console" {
		change.Origin = control.FromConsole
	}
	return change
}

// refuseAllowances returns an error if a change lets callers name a member for operators of engines at
// an instance that does not allow it yet.
func refuseAllowances(before, after *config.Document) error {
	for service, policy := range after.Services {
		for i := range policy.Instances {
			one, had := &policy.Instances[i], schema.Members(0)
			stored := before.Services[service].Instances
			if n := indexOf(stored, one.ID()); n >= 0 {
				had = schema.MembersOf(stored[n].AllowMembers)
			}
			if schema.MembersOf(one.AllowMembers)&^had != 0 {
				return &web.RequestError{Status: http.StatusForbidden, Why: say.New("manage.allow_members")}
			}
		}
	}
	return nil
}

// write makes a change that creates, applies or deletes a version. Only such changes
// obey If-Match.
func write(c *web.Call, do func(context.Context, control.Change) (control.Result, error)) (view changeView, err error) {
	change := changeOf(c)
	if change.IfVersions, err = ifMatch(c.Header.Values("If-Match")); err != nil {
		return view, err
	}
	result, err := do(c.Context(), change)
	return viewOf(result, c.DryRun), err
}

// edit changes the configuration.
func (a *API) edit(c *web.Call, edit func(*config.Document) error) (changeView, error) {
	return write(c, func(ctx context.Context, change control.Change) (control.Result, error) {
		return a.options.Control.Apply(ctx, change, edit)
	})
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
			return nil, web.BadInput("If-Match", "field.if_match")
		}
		versions = append(versions, number)
	}
	return versions, nil
}

// serviceOf parses the service type in the path.
func serviceOf(c *web.Call) (schema.ServiceType, error) {
	written := web.Shorten(c.PathValue("serviceType"))
	serviceType, err := schema.ParseServiceType(written)
	if err != nil && c.Method == http.MethodPost {
		return 0, web.Invalid("serviceType", say.From(err))
	}
	if err != nil {
		return 0, web.NotFound(say.New("manage.no_service", "name", written,
			"known", say.From(err).Values["known"]).About("serviceType"))
	}
	return serviceType, nil
}

// versionOf parses the number of a version. A whole number that no version can have is
// not found; anything else is invalid.
func versionOf(field, text string) (int, error) {
	digits := strings.TrimPrefix(text, "-")
	isNoDigit := func(r rune) bool { return r < '0' || r > '9' }
	if digits == "" || strings.ContainsFunc(digits, isNoDigit) {
		return 0, web.BadInput(field, "field.version_number", "found", web.Shorten(text))
	}
	number, err := strconv.Atoi(text)
	if err != nil || number < 1 {
		return 0, versions.NoVersion(web.Shorten(text))
	}
	return number, nil
}

// streamedList is a reply with a list as its data. The list is written while it is read.
// The function returns the message, which is known only at the end and is written last.
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
		to.WriteToken(jsontext.String("message")), to.WriteToken(jsontext.String(message)),
		to.WriteToken(jsontext.EndObject))
}
