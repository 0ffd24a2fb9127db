// Package problems keeps what is wrong: the causes by which calls were lost, rescued or refused,
// each at an object. It says which of them people should hear of first.
//
// A problem is one cause at one object: an instance, the owner of a limit, or a name that callers
// ask for; with the status and code of the failure and its normalised words. It is over when
// nothing happened for a while, and what comes later is a new problem. Calls are told apart by
// calls.Record.Outcome, and a call counts for one problem.
package problems

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/patchbay-ai/patchbay/internal/count/allowance"
	"github.com/patchbay-ai/patchbay/internal/count/budget"
	"github.com/patchbay-ai/patchbay/internal/plain/say"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
	"github.com/patchbay-ai/patchbay/internal/route/routing"
	"github.com/patchbay-ai/patchbay/internal/see/calls"
)

const (
	// maxGroups is how many problems are remembered. maxByRequests is how many of them are about
	// requests that callers got wrong: these name what callers wrote, which is without end.
	maxGroups, maxByRequests = 200, 50
	// maxWordings is how many problems one object has with the same status and code. Beyond it
	// the words are not told apart.
	maxWordings = 8
	// maxNamed bounds the accounts, models and instances that a problem names.
	maxNamed = 50
	// maxModels and maxAccounts bound the objects with counts of their own.
	maxModels, maxAccounts = 1000, 100
	// Quiet is how long a problem is quiet before it is over.
	Quiet = 15 * time.Minute
	// Now is how long after its latest call a problem is one of now.
	Now = time.Minute
	// forgotten is how long a problem that is over is shown.
	forgotten = 24 * time.Hour
)

// Kind is the kind of object that a problem is about.
type Kind string

// The kinds.
const (
	// AtBackend is calls that failed at an instance.
	AtBackend Kind = "backend"
	// ByLimit is calls that a limit or a budget refused.
	ByLimit Kind = "refusal"
	// OfRequests is calls that failed before a backend was asked.
	OfRequests Kind = "request"
	// OfStrangers is calls without a valid key.
	OfStrangers Kind = "stranger"
)

// Key identifies a problem by its cause and object.
type Key struct {
	Kind    Kind
	Service schema.ServiceType
	// Object is the instance, the owner of the limit or budget, or the requested name.
	Object string
	Code   string
	// Status is the backend's answer, or the one that the client received where no backend
	// answered.
	Status int
	Words  string // normalised
}

// Counts counts the calls of a problem since it began. Tried counts the attempts that failed,
// which may be several of one call.
type Counts struct {
	Lost    int64 `json:"lost"`
	Rescued int64 `json:"rescued"`
	Refused int64 `json:"refused"`
	Tried   int64 `json:"tried"`
}

// Docs says what each is.
func (Counts) Docs() map[string]string {
	return map[string]string{
		"lost": "Calls that were let in and have no answer, or only a part of it, since the problem began. " +
			"A call counts for one problem: the one of its last failed attempt.",
		"rescued": "Calls that another instance or model answered, since the problem began.",
		"refused": "Calls that broke a rule, by the gateway or the backend: a limit, a budget, a key, a " +
			"permission, the form of the request, or the name of no model.",
		"tried": "Attempts that failed with this cause, of calls that were lost or rescued. A call may have " +
			"several.",
	}
}

func (c *Counts) add(other Counts) {
	c.Lost += other.Lost
	c.Rescued += other.Rescued
	c.Refused += other.Refused
	c.Tried += other.Tried
}

// countsOf returns the counts of a call with an outcome.
func countsOf(outcome calls.Outcome) (c Counts) {
	switch outcome {
	case calls.Lost:
		c.Lost = 1
	case calls.Rescued:
		c.Rescued = 1
	case calls.Refused:
		c.Refused = 1
	case calls.Answered, calls.Gone, calls.Stopped:
	}
	return c
}

// span is the counts of a problem, or of the part of it that one account has.
type span struct {
	Counts
	First, Last time.Time
	RequestID   string // of the latest call
	// lostAt and refusedAt are when a call was lost and refused last.
	lostAt, refusedAt time.Time
}

func (s *span) add(c *calls.Record, counted Counts, at time.Time) {
	if s.First.IsZero() {
		s.First = at
	}
	s.Counts.add(counted)
	if s.Last, s.RequestID = at, c.RequestID; counted.Lost > 0 {
		s.lostAt = at
	}
	if counted.Refused > 0 {
		s.refusedAt = at
	}
}

// Group is one problem.
type Group struct {
	Key
	span
	// Said is the sentence of the latest failure.
	Said say.Sentence
	Sent int // the status that the latest caller was sent
	// Models, Instances and Host are those of the object. A problem that was folded has several.
	Models, Instances []string
	Host              string
	// Fallbacks are the models that answered in place of the problem's models, the latest for
	// each.
	Fallbacks []Fallback
	// Calls and CallsRefused are the calls of the account in the last minutes.
	Calls, CallsRefused int64
	Until               time.Time
	State               State
	// Summary names the object and the cause in a sentence.
	Summary say.Sentence

	lately   ring // lost and refused calls
	accounts map[string]*span
}

// Fallback is a model and the one that answers for it.
type Fallback struct {
	Model string `json:"model"`
	By    string `json:"by" doc:"The model that answered the latest request for it."`
}

type modelKey struct {
	service schema.ServiceType
	model   string
}

// Keeper remembers problems. It observes a recorder.
type Keeper struct {
	recorder *calls.Recorder
	current  *routing.Current
	budgets  func() []budget.Use

	mu   sync.Mutex
	all  []*Group
	open map[Key]*Group // the latest of each
	// tracked counts the calls of accounts that refuse some, and those refused.
	tracked map[string]*ring
	models  map[modelKey]*modelCalls
}

// modelCalls counts the calls of a model that were answered, and those lost.
type modelCalls struct {
	ring
	// lost counts the calls that were lost since one was answered, lostSince is when the first of
	// them was lost, and lostAt when the last one was.
	lost              int64
	lostSince, lostAt time.Time
}

// fails reports whether the model answered nothing lately, and lost the latest call.
func (m *modelCalls) fails(now time.Time) bool {
	return m != nil && m.lost > 0 && now.Sub(m.lostAt) <= Quiet && m.sum(now, Lately)[0] == 0
}

// New returns the problems of the calls that a recorder keeps from now on, of the instances in
// force, and of budgets.
func New(recorder *calls.Recorder, current *routing.Current, budgets func() []budget.Use) *Keeper {
	k := &Keeper{recorder: recorder, current: current, budgets: budgets, open: map[Key]*Group{},
		tracked: map[string]*ring{}, models: map[modelKey]*modelCalls{}}
	recorder.Observe(k.note)
	return k
}

// note adds the calls of a batch.
func (k *Keeper) note(batch []calls.Record) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for i := range batch {
		c := &batch[i]
		at, outcome := c.Started.Add(c.Ended), c.Outcome()
		switch outcome {
		case calls.Answered:
		case calls.Gone, calls.Stopped:
			continue
		case calls.Rescued, calls.Lost, calls.Refused:
			k.group(c, outcome, at)
		}
		k.count(c, outcome, at)
	}
}

// count counts a call for its model and for the accounts that refuse some.
func (k *Keeper) count(c *calls.Record, outcome calls.Outcome, at time.Time) {
	for account, one := range k.tracked {
		if isOf(account, c) {
			one.add(at, 0)
		}
	}
	if c.Model == "" || outcome == calls.Refused {
		return
	}
	key := modelKey{c.Service, c.Model}
	one := k.models[key]
	if one == nil {
		makeRoom(k.models, maxModels, func(one *modelCalls) int64 { return one.last })
		one = &modelCalls{}
		k.models[key] = one
	}
	if outcome != calls.Lost {
		one.add(at, 0)
		one.lost = 0
		return
	}
	one.add(at, 1)
	if one.lost == 0 || at.Sub(one.lostAt) >= Quiet {
		one.lost, one.lostSince = 0, at
	}
	one.lost++
	one.lostAt = at
}

// makeRoom deletes the entry of a full map that has the smallest value.
func makeRoom[K comparable, V any](all map[K]V, most int, of func(V) int64) {
	if len(all) < most {
		return
	}
	delete(all, slices.MinFunc(slices.Collect(maps.Keys(all)), func(a, b K) int {
		return cmp.Compare(of(all[a]), of(all[b]))
	}))
}

// group adds a call that was not simply answered to the problems.
func (k *Keeper) group(c *calls.Record, outcome calls.Outcome, at time.Time) {
	blamed := c.Blamed()
	isByBackend := blamed != nil && (outcome != calls.Refused || c.Code == schema.CodeUpstreamError)
	tries := c.Described()
	for i := range tries {
		try := &tries[i]
		if !try.Failed() {
			continue
		}
		counted := Counts{}
		if try == blamed && isByBackend {
			counted = countsOf(outcome)
		}
		counted.Tried = 1
		model := calls.ModelOf(try.Instance, c.Model)
		said := try.Sentence()
		one := k.of(Key{AtBackend, c.Service, try.Instance, try.Code, try.Status, normalised(said.String())}, at)
		one.Said, one.Sent = said, c.Status
		one.Host, one.Models, one.Instances = calls.HostOf(try.Instance), []string{model}, []string{try.Instance}
		if outcome == calls.Rescued && c.Fallbacks > 0 {
			one.takeOver(model, c.Model)
		}
		one.add(c, counted, at)
	}
	if isByBackend || k.behindBreakers(c, outcome, at) || outcome == calls.Rescued {
		return
	}
	key := Key{Kind: OfRequests, Service: c.Service, Object: c.Asked, Code: c.Code, Status: c.Status}
	switch {
	case c.Result == schema.ResultUnauthorized, c.Code == schema.CodeTooManyAttempts:
		key.Kind, key.Object = OfStrangers, ""
	case c.Told != nil && c.Told.Of != "":
		key.Kind, key.Object = ByLimit, c.Told.Of
	case c.Asked == "":
		key.Object = c.Model
	}
	if key.Kind == OfRequests && c.Told != nil {
		key.Words = string(c.Told.Said.Code)
	}
	one := k.of(key, at)
	one.Sent = c.Status
	if c.Model != "" && !slices.Contains(one.Models, c.Model) && len(one.Models) < maxNamed {
		one.Models = append(one.Models, c.Model)
	}
	if c.Told != nil {
		one.Said, one.Until = c.Told.Said, c.Told.Until
	}
	one.add(c, countsOf(outcome), at)
	if key.Kind == ByLimit {
		k.track(key.Object, c, at)
	}
}

// behindBreakers counts a call that was lost, or that another model answered, because every
// circuit breaker was open. It counts for the problem that opened them, and reports whether there
// is one: a person may hold breakers too.
func (k *Keeper) behindBreakers(c *calls.Record, outcome calls.Outcome, at time.Time) bool {
	model := c.Model
	switch {
	case outcome == calls.Rescued && c.Left != "":
		model = c.Left
	case c.Code != schema.CodeCircuitBreakerOpen:
		return false
	}
	var latest *Group
	for key, one := range k.open {
		if key.Kind == AtBackend && key.Service == c.Service && slices.Contains(one.Models, model) &&
			at.Sub(one.Last) <= Quiet && (latest == nil || one.Last.After(latest.Last)) {
			latest = one
		}
	}
	if latest == nil {
		return false
	}
	if latest.add(c, countsOf(outcome), at); outcome == calls.Rescued {
		latest.takeOver(model, c.Model)
	}
	return true
}

// of returns the problem with a key, which is a new one where the latest is over.
func (k *Keeper) of(key Key, at time.Time) *Group {
	one := k.open[key]
	if one != nil && at.Sub(one.Last) <= Quiet {
		return one
	}
	wordings, byRequests := 0, 0
	for _, other := range k.all {
		alike := other.Key
		if alike.Words = key.Words; alike == key && other.Words != key.Words && at.Sub(other.Last) <= Quiet {
			wordings++
		}
		if other.Kind == OfRequests {
			byRequests++
		}
	}
	if wordings >= maxWordings && key.Words != "" {
		key.Words = ""
		return k.of(key, at)
	}
	switch {
	case key.Kind == OfRequests && byRequests >= maxByRequests:
		k.drop(func(other *Group) bool { return other.Kind == OfRequests })
	case len(k.all) >= maxGroups:
		k.drop(func(*Group) bool { return true })
	}
	one = &Group{Key: key, span: span{Last: at}}
	k.all, k.open[key] = append(k.all, one), one
	return one
}

// drop forgets the problem that was seen least recently among some.
func (k *Keeper) drop(among func(*Group) bool) {
	at := -1
	for i, one := range k.all {
		if among(one) && (at < 0 || one.Last.Before(k.all[at].Last)) {
			at = i
		}
	}
	one := k.all[at]
	if k.all = slices.Delete(k.all, at, at+1); k.open[one.Key] == one {
		delete(k.open, one.Key)
	}
}

// add counts a call for the problem, and for the tenant and the key that it belongs to.
func (g *Group) add(c *calls.Record, counted Counts, at time.Time) {
	g.span.add(c, counted, at)
	if counted.Lost > 0 {
		g.lately.add(at, 0)
	}
	if counted.Refused > 0 {
		g.lately.add(at, 1)
	}
	for _, account := range AccountsOf(c.Tenant, c.KeyID) {
		own := g.accounts[account]
		if own == nil || at.Sub(own.Last) > Quiet {
			if g.accounts == nil {
				g.accounts = map[string]*span{}
			}
			if own == nil {
				makeRoom(g.accounts, maxNamed, func(one *span) int64 { return one.Last.UnixNano() })
			}
			own = &span{}
			g.accounts[account] = own
		}
		own.add(c, counted, at)
	}
}

// AccountsOf returns the names of the accounts of a tenant and of a key, without those that are empty.
func AccountsOf(tenant, key string) (names []string) {
	if tenant != "" {
		names = append(names, allowance.TenantName(tenant))
	}
	if key != "" {
		names = append(names, allowance.KeyName(key))
	}
	return names
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

// track counts a refused call of an account, beside the account's other calls: the earlier
// recorded ones and all from now on.
func (k *Keeper) track(account string, refused *calls.Record, at time.Time) {
	one := k.tracked[account]
	if one == nil {
		makeRoom(k.tracked, maxAccounts, func(one *ring) int64 { return one.last })
		one = &ring{}
		one.advance(slotOf(at))
		for c := range k.recorder.Recorded() {
			ended := c.Started.Add(c.Ended)
			if at.Sub(ended) > Lately {
				break
			}
			if c.Sequence < refused.Sequence && isOf(account, c) {
				one.add(ended, 0)
			}
		}
		k.tracked[account] = one
	}
	one.add(at, 1)
}

// isOf reports whether a call is one of an account.
func isOf(account string, c *calls.Record) bool {
	kind, name, _ := strings.Cut(account, "/")
	return kind == "key" && name == c.KeyID || kind == "tenant" && name == c.Tenant ||
		kind == "service" && name == c.Service.String() ||
		(kind == "model" || kind == "instances") && name == c.Model || c.Told != nil && c.Told.Of == account
}
