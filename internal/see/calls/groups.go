package calls

import (
	"cmp"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/patchbay-ai/patchbay/internal/request/schema"
	"github.com/patchbay-ai/patchbay/internal/see/say"
)

const (
	// maxGroups is how many groups of problems are remembered, and maxNamed how many models
	// and instances each of them names.
	maxGroups, maxNamed = 100, 50
	// GroupQuiet is how long a group is quiet before it is over. A later problem begins a
	// new group.
	GroupQuiet = 15 * time.Minute
	// shareSpan is the time span of the share of refused requests.
	shareSpan = 5 * time.Minute
)

// GroupKind is the kind of cause that the problems of a group share.
type GroupKind string

// The kinds of groups.
const (
	// AtBackend is calls of one backend that failed with one code.
	AtBackend GroupKind = "backend"
	// ByLimit is requests that one limit or budget refused.
	ByLimit GroupKind = "refusal"
	// OfRequests is requests that failed with one code before a backend was asked.
	OfRequests GroupKind = "request"
)

// GroupKey identifies a group by the cause that its problems share.
type GroupKey struct {
	Kind    GroupKind
	Service schema.ServiceType
	// Subject is the host of the backend, the owner of the limit or budget, or the
	// requested name.
	Subject, Code string
}

// Group is problems with one cause, since the first of them.
type Group struct {
	GroupKey
	// Text is the text of the latest problem. Status is the backend's answer to it, or the
	// status that the client received if no backend answered.
	Text              string
	Said              say.Sentence
	Status            int
	Models, Instances []string
	// Rescued counts the requests that another instance or model answered. Lost counts the
	// failed ones.
	Rescued, Lost int64
	// Fallbacks are the models that answered in place of the group's models, the latest for
	// each.
	Fallbacks []Fallback
	// Refused and Calls are the requests of the account in the last minutes.
	Refused, Calls int64
	Until          time.Time
	First, Last    time.Time
	RequestID      string
}

// Fallback is a model and the one that answers for it.
type Fallback struct {
	Model string `json:"model"`
	By    string `json:"by" doc:"The model that answered the latest request for it."`
}

// minutes counts the requests of an account, minute by minute.
type minutes struct {
	calls, refused [shareSpan / time.Minute]int64
	last           int64 // the latest minute
}

func (m *minutes) advance(now time.Time) int {
	minute := now.Unix() / 60
	for ; m.last < minute; m.last++ {
		if minute-m.last > int64(len(m.calls)) {
			m.last = minute - int64(len(m.calls))
		}
		next := (m.last + 1) % int64(len(m.calls))
		m.calls[next], m.refused[next] = 0, 0
	}
	return int(m.last % int64(len(m.calls)))
}

// group adds a failed request to the groups. The lock is held.
func (p *problems) group(c *Record, at time.Time) {
	if c.Told != nil && c.Told.Of != "" {
		one := p.groupOf(GroupKey{ByLimit, c.Service, c.Told.Of, c.Code}, c, at)
		one.Lost, one.Status, one.Until = one.Lost+1, c.Status, c.Told.Until
		one.Text, one.Said = c.Told.Message, c.Told.Said
		one.name(c.Model, "")
		p.track(c.Told.Of, c, at)
		return
	}
	isBlamed := false
	for _, try := range c.Described() {
		if try.Code == "" || try.Code == schema.CodeCancelled || try.Code == schema.CodeStopped || try.Code == GivenUp {
			continue
		}
		one := p.groupOf(GroupKey{AtBackend, c.Service, HostOf(try.Instance), try.Code}, c, at)
		one.Text, one.Said, one.Status = try.Text, try.Sentence(), try.Status
		model := modelOf(try.Instance, c.Model)
		one.name(model, try.Instance)
		if c.Code == "" && c.Fallbacks > 0 {
			one.takeOver(model, c.Model)
		}
		if isBlamed {
			continue // a request counts once
		}
		if isBlamed = true; c.Code == "" {
			one.Rescued++
		} else {
			one.Lost++
		}
	}
	if isBlamed || c.Code == schema.CodeStopped || p.behindBreakers(c, at) || c.Code == "" {
		return
	}
	subject := c.Asked
	if subject == "" {
		subject = c.Model
	}
	one := p.groupOf(GroupKey{OfRequests, c.Service, subject, c.Code}, c, at)
	one.Lost, one.Status = one.Lost+1, c.Status
	one.name(c.Model, "")
	if c.Told != nil {
		one.Text, one.Said = c.Told.Message, c.Told.Said
	}
}

// behindBreakers counts a request that was lost, or that another model answered, because
// every circuit breaker was open. It counts for the backend with the failures that opened
// them, and reports whether there is one: a person may hold breakers too.
func (p *problems) behindBreakers(c *Record, at time.Time) bool {
	model := c.Model
	switch {
	case c.Code == "" && c.Left != "":
		model = c.Left
	case c.Code != schema.CodeCircuitBreakerOpen:
		return false
	}
	one := p.cause(c.Service, model, at)
	if one == nil {
		return false
	}
	if one.Last, one.RequestID = at, c.RequestID; c.Code != "" {
		one.Lost++
		return true
	}
	one.Rescued++
	one.takeOver(model, c.Model)
	return true
}

// cause returns the latest failures of a backend of a model, nil where there are none.
func (p *problems) cause(service schema.ServiceType, model string, at time.Time) *Group {
	var latest *Group
	for key, one := range p.groups {
		if key.Kind == AtBackend && key.Service == service && slices.Contains(one.Models, model) &&
			at.Sub(one.Last) <= GroupQuiet &&
			(latest == nil || one.Last.After(latest.Last)) {
			latest = one
		}
	}
	return latest
}

// groupOf returns the group of a problem, which begins anew where it was quiet for long.
func (p *problems) groupOf(key GroupKey, c *Record, at time.Time) *Group {
	one := p.groups[key]
	if one == nil {
		makeRoom(p.groups, maxGroups, func(other *Group) time.Time { return other.Last })
	}
	if one == nil || at.Sub(one.Last) > GroupQuiet {
		one = &Group{GroupKey: key, First: at}
		p.groups[key] = one
	}
	one.Last, one.RequestID = at, c.RequestID
	return one
}

// name adds a model and an instance.
func (g *Group) name(model, instance string) {
	if model != "" && len(g.Models) < maxNamed && !slices.Contains(g.Models, model) {
		g.Models = append(g.Models, model)
	}
	if instance != "" && len(g.Instances) < maxNamed && !slices.Contains(g.Instances, instance) {
		g.Instances = append(g.Instances, instance)
	}
}

// takeOver notes that a model answered for another one.
func (g *Group) takeOver(model, by string) {
	if model == by {
		return
	}
	at := slices.IndexFunc(g.Fallbacks, func(one Fallback) bool { return one.Model == model })
	if at >= 0 {
		g.Fallbacks[at].By = by
	} else if len(g.Fallbacks) < maxNamed {
		g.Fallbacks = append(g.Fallbacks, Fallback{model, by})
	}
}

// track counts a refused request of an account, beside the account's other requests: the
// earlier recorded ones and all from now on.
func (p *problems) track(account string, refused *Record, at time.Time) {
	one := p.tracked[account]
	if one == nil {
		if len(p.tracked) >= maxGroups {
			return
		}
		one = &minutes{}
		one.advance(at)
		p.recorded(func(c *Record) bool {
			minute := c.Started.Add(c.Ended).Unix() / 60
			if one.last-minute >= int64(len(one.calls)) {
				return false
			}
			if c.Sequence < refused.Sequence && minute <= one.last && isOf(account, c) {
				one.calls[minute%int64(len(one.calls))]++
			}
			return true
		})
		p.tracked[account] = one
	}
	one.refused[one.advance(at)]++
}

// count counts a request for the accounts that refuse some. The lock is held.
func (p *problems) count(c *Record, at time.Time) {
	for account, one := range p.tracked {
		if isOf(account, c) {
			one.calls[one.advance(at)]++
		}
	}
}

// isOf reports whether a request is one of an account.
func isOf(account string, c *Record) bool {
	kind, name, _ := strings.Cut(account, "/")
	return kind == "key" && name == c.KeyID || kind == "tenant" && name == c.Tenant ||
		kind == "service" && name == c.Service.String() ||
		(kind == "model" || kind == "instances") && name == c.Model || c.Told != nil && c.Told.Of == account
}

// modelOf returns the model of an instance, name@address: a request may have gone on to another
// model after it failed there.
func modelOf(instance, otherwise string) string {
	if name, _, ok := cutLast(instance, "@http"); ok {
		return name
	}
	return otherwise
}

// HostOf returns the host of an instance, name@address, as browsers write it: in lower case, and
// without the port that its scheme has anyway.
func HostOf(instance string) string {
	_, address, ok := cutLast(instance, "@http")
	if !ok {
		return instance
	}
	parsed, err := url.Parse("http" + address)
	if err != nil || parsed.Host == "" {
		return instance
	}
	host := strings.ToLower(parsed.Host)
	if parsed.Scheme == "https" {
		return strings.TrimSuffix(host, ":443")
	}
	return strings.TrimSuffix(host, ":80")
}

func cutLast(text, separator string) (before, after string, ok bool) {
	at := strings.LastIndex(text, separator)
	if at < 0 {
		return text, "", false
	}
	return text[:at], text[at+len(separator):], true
}

// Groups returns the problems of recorded calls by cause. The group that began last comes
// first: this way groups keep their places while they go on. Groups that were quiet for
// long are over and left out.
func (r *Recorder) Groups(now time.Time) []Group {
	r.drain(now) // readers see records that were not flushed yet
	p := &r.problems
	p.mu.Lock()
	defer p.mu.Unlock()
	list := make([]Group, 0, len(p.groups))
	for key, one := range p.groups {
		if now.Sub(one.Last) > GroupQuiet {
			delete(p.groups, key)
			continue
		}
		view := *one
		view.Models, view.Instances, view.Fallbacks = slices.Clone(one.Models), slices.Clone(one.Instances),
			slices.Clone(one.Fallbacks)
		if counts := p.tracked[one.Subject]; one.Kind == ByLimit && counts != nil {
			counts.advance(now)
			for i := range counts.calls {
				view.Calls += counts.calls[i]
				view.Refused += counts.refused[i]
			}
		}
		list = append(list, view)
	}
	for account, counts := range p.tracked {
		if counts.advance(now); counts.refused == (minutes{}).refused {
			delete(p.tracked, account)
		}
	}
	slices.SortFunc(list, func(a, b Group) int {
		return cmp.Or(b.First.Compare(a.First), strings.Compare(a.Subject+a.Code, b.Subject+b.Code))
	})
	return list
}
