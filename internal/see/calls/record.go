package calls

import (
	"encoding/binary"
	"encoding/hex"
	"math"
	"math/rand/v2"
	"net/netip"
	"strings"
	"time"

	"github.com/patchbay-ai/patchbay/internal/plain/say"
	"github.com/patchbay-ai/patchbay/internal/request/prices"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
	"github.com/patchbay-ai/patchbay/internal/see/metrics"
)

// maxTries is how many attempts a record describes: the latest ones.
const maxTries = 4

// maxMerged is how many attempts the record of a request shared by several instances
// describes.
const maxMerged = 16

// GivenUp is the code of an attempt that the gateway ended because it was not needed any more:
// another instance answered sooner, or another part of the request failed.
const GivenUp = "given_up"

// maxObstacles is the number of reasons to skip an instance, plus one for eligible.
const maxObstacles = 10

// maxText bounds the kept text of a failure.
const maxText = 300

// Record describes one request at its end: its kind, its result, and when each step was
// over. The web shell, the unified API and the proxy fill it in; the line of the access
// log, the counts, the trace and the list of calls are made from it. It holds names that
// the configuration knows and numbers, and nothing that a client or a model wrote except
// Asked, User, Session, Conversation, the texts of failures, and the captured contents. The
// tags are its form in the call file.
type Record struct {
	// Sequence is the place of the record among all that were recorded since the
	// start, from 1 on. It is set when the record reaches its readers.
	Sequence  uint64    `json:"n"`
	RequestID string    `json:"id"`
	Started   time.Time `json:"t"`
	// Status is the HTTP status that the client was sent, 0 if none was.
	Status int `json:"http,omitzero"`
	// Code is the code of the error, empty for a success.
	Code string `json:"code,omitzero"`
	// Told is the error that the caller received, nil where there was none.
	Told *Told `json:",embed"`
	// Gone says that the client left before it had the whole answer.
	Gone bool `json:"gone,omitzero"`

	// Unified says that the request came to an endpoint of the unified API. The members
	// below are empty for all other requests, and those are not counted.
	Unified bool               `json:"-"`
	Service schema.ServiceType `json:"service"`
	// Door is the endpoint that it came to.
	Door schema.Door `json:"door"`
	// Route is the path of that endpoint.
	Route string `json:"-"`
	// Model is the configured name of the model that served or was tried last. It is
	// empty where no model has the name that the client asked for. Asked has the
	// beginning of that name where it is another one than Model: of no model, or an
	// alias.
	Model string `json:"model,omitzero"`
	Asked string `json:"asked,omitzero"`
	// Instance is the identifier of the one that answered or failed last.
	Instance string `json:"instance,omitzero"`
	// Strategy is the strategy that picked the instance. Candidates counts the instances of
	// the model by their backend.Obstacle; the first number counts the eligible ones.
	Strategy   string     `json:"strategy,omitzero"`
	Candidates Candidates `json:"candidates,omitzero"`
	// KeyID names the API key, where keys are required, Tenant is whom the request is
	// counted for, and Client is the address that the request came from.
	KeyID  string     `json:"key,omitzero"`
	Tenant string     `json:"tenant,omitzero"`
	Client netip.Addr `json:"ip,omitzero"`
	// User is who the request is made for, as the ledger names it: by the header that the
	// key trusts, or else by the body.
	User string `json:"user,omitzero"`
	// Run is the public id of the agent's run that the request belongs to, empty where it
	// belongs to none, or where runs are off.
	Run      string       `json:"run,omitzero"`
	Streamed bool         `json:"streamed,omitzero"`
	Usage    schema.Usage `json:"tokens,omitzero"`
	// Cost is the price of the request, in 10^-12 of the currency's unit.
	Cost prices.Amount `json:"cost,omitzero"`

	// Session and Conversation are the names that the client has for the session of an agent
	// and for the conversation. They are set for calls that are traced only.
	Session, Conversation string `json:"-"`

	// Routed says that the request was read and let in: routing began.
	Routed bool `json:"routed,omitzero"`
	// Result is set when the call is finished.
	Result schema.Result `json:"result"`

	// When each step was over, counted from Started; zero for steps that were
	// not reached. Ready is when the request had been read, Limited when the
	// limits had let it pass, FirstByte when the answer began, FirstToken when its first
	// content had come: text, reasoning, a refusal or a call of a stream, the first bytes
	// of audio, all of any other answer. Streams often begin long before their content.
	Ready      time.Duration `json:"ready,omitzero"`
	Limited    time.Duration `json:"limited,omitzero"`
	FirstByte  time.Duration `json:"byte,omitzero"`
	FirstToken time.Duration `json:"token,omitzero"`
	Ended      time.Duration `json:"end"`
	// PerToken is the time per output token; see NotePace.
	PerToken time.Duration `json:"pace,omitzero"`
	// Queued is how long it waited for a slot, Upstream how long for backends.
	Queued   time.Duration `json:"queued,omitzero"`
	Upstream time.Duration `json:"upstream,omitzero"`
	// Held is the part of Queued spent waiting for the model to load.
	Held time.Duration `json:"held,omitzero"`

	// Cache is the part that the cache of answers played in the request.
	Cache metrics.Cached `json:"cache,omitzero"`
	// Also counts the request as well, if it is counted; nil if nothing else does.
	Also *metrics.Counter `json:"-"`
	// Class is how urgent the request is while it waits.
	Class schema.Class `json:"class,omitzero"`
	// Target is within what time the client wanted the first content, 0 where it did not say.
	Target time.Duration `json:"target,omitzero"`

	// Fallbacks counts how often another model took over.
	Fallbacks int `json:"fallbacks,omitzero"`
	// Left is the configured name of the first model that was replaced by another because
	// its circuit breakers were open, empty where that did not happen.
	Left string `json:"left,omitzero"`
	// Pieces is the number of calls over which the request was split, 0 if it was not.
	Pieces int `json:"pieces,omitzero"`
	// Resumed counts how often another instance went on with an answer that broke off after
	// content was sent.
	Resumed int `json:"resumed,omitzero"`
	// Hedge is the fate of a second call that was due because the first was slow.
	Hedge metrics.Hedged `json:"hedge,omitzero"`
	// Attempts counts all of them; Described returns the latest. Most requests have one.
	// The others are kept apart, because records are copied and kept in numbers.
	Attempts int `json:"attempts,omitzero"`
	only     [1]Try
	several  []Try // the latest, oldest first; nil where there is only one

	Trace Trace `json:",embed"`

	// Series are the counts of the instance that answered or failed last.
	Series *metrics.Instance `json:"-"`

	// Charged is the part of the cost that was counted for other instances than that of Series.
	Charged prices.Amount `json:"-"`

	// Stopped means that an operator ended the call, or the run that it belongs to.
	Stopped bool `json:"stopped,omitzero"`

	// Running ends the request while it runs, and shows it if calls are recorded.
	Running *Running `json:"-"`

	// Captured holds the kept headers and bodies, nil if there are none. The recorder takes
	// it out of the record before anybody reads that; Recorder.Captured returns it.
	Captured *Captured `json:"-"`
}

// Candidates counts instances by why they were passed over.
type Candidates [maxObstacles]uint16

// Told is the error that the caller of a failed request received.
type Told struct {
	Said say.Sentence `json:"sentence,omitzero"` // cut
	// Of names the owner of the limit or budget that refused the request, as in
	// schema.Error, and Until is when it lets a request in again; they are zero where none
	// did, or never does.
	Of    string    `json:"of,omitzero"`
	Until time.Time `json:"until,omitzero"`
}

// maxMessage bounds the kept message to the caller.
const maxMessage = 600

// Tell notes the error sent to the caller.
func (c *Record) Tell(e *schema.Error) {
	c.Code = e.Code
	said := e.Said.Cut(maxMessage)
	if c.Told != nil && c.Told.Said.String() == said.String() {
		return // the proxy has noted it
	}
	c.Told = &Told{Said: said, Of: e.Of}
	if e.Of != "" && e.RetryAfter > 0 && e.Code != schema.CodeBudgetReserved { // which passes when others end
		c.Told.Until = time.Now().Add(e.RetryAfter)
	}
}

// Restore sets the attempts that a record describes, as Described returned them.
func (c *Record) Restore(attempts int, tries []Try) {
	c.Attempts, c.only, c.several = attempts, [1]Try{}, nil
	switch {
	case len(tries) == 1:
		c.only[0] = tries[0]
	case len(tries) > 1:
		c.several = tries
	}
}

// Try is one attempt of a call.
type Try struct {
	Instance string `json:"instance"`
	Adapter  string `json:"adapter,omitzero"`
	// Provider is the name of the adapter in the conventions of OpenTelemetry.
	Provider string `json:"-"`
	// Began is when the instance was picked, Sent when the backend's connection
	// was asked for, FirstByte when its answer began, Ended when it was over: all
	// counted from the start of the call.
	Began     time.Duration `json:"began,omitzero"`
	Sent      time.Duration `json:"sent,omitzero"`
	FirstByte time.Duration `json:"byte,omitzero"`
	Ended     time.Duration `json:"end,omitzero"`
	// Expected is when the first token was expected, counted from Began, and Matched the
	// part of the prompt that was believed to be in the cache of the instance. Both are zero
	// where the strategy expects nothing.
	Expected time.Duration `json:"expected,omitzero"`
	Matched  float64       `json:"matched,omitzero"`
	// Reused says that the connection had served before.
	Reused bool `json:"reused,omitzero"`
	// Status is the HTTP status of the backend's answer, 0 where there was none.
	Status int `json:"http,omitzero"`
	// Code is the code of the failure, empty for a success; Cause is the word for why the
	// backend could not be reached, empty if it could. Said is the message to the caller about
	// the failure, sent or not: cut, without secrets and addresses; nil after a success.
	Code  string        `json:"code,omitzero"`
	Cause string        `json:"cause,omitzero"`
	Said  *say.Sentence `json:"sentence,omitzero"`
	// URL is where a failed attempt was sent, without its query.
	URL  string `json:"url,omitzero"`
	Span SpanID `json:"-"`
	// Resumed is the way that the instance continued an answer that another one began:
	// continued or aligned; empty where it did not.
	Resumed string `json:"resumed,omitzero"`
}

// Sentence returns Said, the zero Sentence where there is none.
func (t *Try) Sentence() say.Sentence {
	if t.Said == nil {
		return say.Sentence{}
	}
	return *t.Said
}

// TraceID names a distributed trace; it is zero where there is none.
type TraceID [16]byte

// SpanID names a part of a trace; it is zero where there is none.
type SpanID [8]byte

// Trace is the place of a call in a distributed trace; the zero value is none.
type Trace struct {
	ID           TraceID `json:"trace,omitzero"`
	Span, Parent SpanID  `json:"-"`
}

// Traced reports whether the call belongs to a trace that is exported.
func (c *Record) Traced() bool { return c.Trace.ID != TraceID{} }

// Reset clears the record for another request.
func (c *Record) Reset() { *c = Record{} }

// Begin adds an attempt.
func (c *Record) Begin(instance, adapter string, now time.Time) {
	try := Try{Instance: instance, Adapter: adapter, Began: c.At(now)}
	c.Attempts++
	c.Instance = instance
	if c.Attempts == 1 {
		c.only[0], c.several = try, nil
		return
	}
	if c.several == nil {
		c.several = append(make([]Try, 0, maxTries), c.only[0])
	}
	if len(c.several) >= maxTries {
		c.several = append(c.several[:0], c.several[1:]...)
	}
	c.several = append(c.several, try)
}

// Merge adds the attempts of a part of the same request, which has a record of its own that
// began at the same time.
func (c *Record) Merge(part *Record) {
	if part.Attempts == 0 {
		return
	}
	if c.Attempts == 0 {
		c.only[0] = part.Described()[0]
	}
	all := append(append(make([]Try, 0, maxTries), c.Described()...), part.Described()...)
	c.Attempts += part.Attempts
	c.Instance = part.Instance
	if c.several = all[max(0, len(all)-maxMerged):]; c.Attempts == 1 {
		c.several = nil
	}
}

// MergeLost adds the attempts of a second call with an unused answer. The latest attempt
// stays the latest.
func (c *Record) MergeLost(part *Record) {
	if part.Attempts == 0 {
		return
	}
	own := c.Described()
	last := own[len(own)-1]
	all := append(append(make([]Try, 0, maxTries), own[:len(own)-1]...), part.Described()...)
	all = append(all, last)
	c.Attempts += part.Attempts
	c.several = all[max(0, len(all)-maxMerged):]
}

// Forget removes the attempt that was added last, because no call was made.
func (c *Record) Forget() {
	c.Attempts--
	c.Instance = ""
	if len(c.several) > 0 {
		c.several = c.several[:len(c.several)-1]
	}
	if c.Attempts > 0 {
		c.Instance = c.Try().Instance
	}
}

// Try returns the latest attempt; there must be one.
func (c *Record) Try() *Try {
	if c.several != nil {
		return &c.several[len(c.several)-1]
	}
	return &c.only[0]
}

// Fail notes why the latest attempt failed.
func (c *Record) Fail(code, cause string, said say.Sentence) {
	try := c.Try()
	said = said.Cut(maxText)
	try.Code, try.Cause, try.Said = code, cause, &said
}

// Cause returns the word for why the backend that was called last could not be
// reached, empty where that is not why the call failed.
func (c *Record) Cause() string {
	if c.Code == "" || c.Attempts == 0 {
		return ""
	}
	return c.Try().Cause
}

// Described returns the attempts that the record describes.
func (c *Record) Described() []Try {
	if c.several != nil {
		return c.several
	}
	return c.only[:min(c.Attempts, 1)]
}

// At returns a moment counted from the start of the call.
func (c *Record) At(now time.Time) time.Duration { return now.Sub(c.Started) }

// Overhead returns the gateway's own time: from when it had read the request until it
// had begun the answer (or sent it, where it is not streamed), without the time that it
// waited for backends and slots.
func (c *Record) Overhead() time.Duration {
	end := c.Ended
	if c.Streamed && c.FirstByte > 0 {
		end = c.FirstByte
	}
	return end - c.Ready - c.Queued - c.Upstream
}

// FirstTokenOf returns how long after an attempt began the first content of a stream came
// from it, zero where none did: the time that Expected of the attempt was about.
func (c *Record) FirstTokenOf(try *Try) time.Duration {
	if !c.Streamed || c.FirstToken <= try.Began || try.Ended > 0 && c.FirstToken > try.Ended {
		return 0
	}
	return c.FirstToken - try.Began
}

// TargetMet says whether the first content came within the target. It says nothing where there was
// none, where the request was refused, and where the client left before either was known.
func (c *Record) TargetMet() metrics.Target {
	first := c.FirstToken
	if first == 0 && c.Code == "" && !c.Gone {
		first = c.Ended
	}
	switch {
	case c.Target == 0, c.Result.Rejected(), first == 0 && c.Gone && c.Ended <= c.Target:
		return metrics.NoTarget
	case first > 0 && first <= c.Target:
		return metrics.TargetKept
	}
	return metrics.TargetMissed
}

// NotePace notes the time per output token of a stream that a backend wrote while it was
// sent, given when it was over: from the first content on, divided by the tokens that came
// after the first. It is unknown for an incomplete answer, and where the backend did not
// count the tokens.
func (c *Record) NotePace(over time.Duration) {
	if after := c.Usage.Completion - 1; c.Usage.Known && after > 0 && c.FirstToken > 0 && c.Code == "" && !c.Gone {
		c.PerToken = max(over-c.FirstToken, 0) / time.Duration(after)
	}
}

// SoFar returns the gateway's own time until now: since it had read the request, without
// the time that it has waited for backends and slots.
func (c *Record) SoFar(now time.Time) time.Duration {
	return c.At(now) - c.Ready - c.Queued - c.Upstream
}

// result decides how the call is counted. A client that left in the middle of an answer
// counts as a success.
func (c *Record) result() schema.Result {
	switch {
	case c.Gone && c.FirstByte == 0:
		return schema.ResultFailed
	case c.Gone, c.Code == "":
		return schema.ResultSuccess
	case c.Stopped:
		return schema.ResultFailed
	}
	result := schema.ResultOf(c.Code)
	if !c.Routed && !result.Rejected() {
		return schema.ResultInvalid
	}
	return result
}

// counted returns the part of the call that package metrics counts.
func (c *Record) counted() metrics.Request {
	r := metrics.Request{
		Service: c.Service, Door: c.Door, Result: c.Result, Cancelled: c.Gone, Usage: c.Usage,
		Cost:     int64(c.Cost - c.Charged),
		Also:     c.Also,
		Duration: c.Ended, Queued: c.Queued, Held: c.Held, Class: c.Class, Target: c.TargetMet(), Overhead: -1,
	}
	if c.Streamed {
		r.FirstToken, r.PerToken = c.FirstToken, c.PerToken
	}
	if c.Attempts > 0 {
		r.Overhead = c.Overhead()
		try := c.Try()
		if r.Picked = try.Began; try.Expected > 0 {
			r.Estimate = float64(c.FirstTokenOf(try)) / float64(try.Expected)
		}
	}
	return r
}

// TraceNew sets which part of the calls that belong to no trace begins one, from 0
// to 1. Calls that belong to a trace follow the decision of its first span. Nothing
// is traced before TraceNew is called.
func (r *Recorder) TraceNew(part float64) {
	r.traceNew.Store(uint64(part * (1 << 32)))
	r.tracing.Store(true)
}

// Tracing reports whether calls may be traced.
func (r *Recorder) Tracing() bool { return r != nil && r.tracing.Load() && r.counts.On() }

// StartTrace decides whether a call is traced, and returns its place in the
// trace: a zero one if not.
func (r *Recorder) StartTrace(traceparent string) Trace {
	trace, sampled, given := ParseTraceparent(traceparent)
	if given {
		if !sampled {
			return Trace{}
		}
		trace.Span = NewSpanID()
		return trace
	}
	//nolint:gosec // nobody gains by guessing it
	if chance := r.traceNew.Load(); chance <= math.MaxUint32 && uint64(rand.Uint32()) >= chance {
		return Trace{}
	}
	binary.LittleEndian.PutUint64(trace.ID[:8], rand.Uint64())   //nolint:gosec // unique is enough
	binary.LittleEndian.PutUint64(trace.ID[8:], rand.Uint64()|1) //nolint:gosec // unique is enough
	trace.Span = NewSpanID()
	return trace
}

// NewSpanID returns a random identifier.
func NewSpanID() (id SpanID) {
	binary.LittleEndian.PutUint64(id[:], rand.Uint64()|1) //nolint:gosec // unique is enough
	return id
}

// traceparentLength is the length of "00-<32 digits>-<16 digits>-<2 digits>".
const traceparentLength = 2 + 1 + 32 + 1 + 16 + 1 + 2

// ParseTraceparent reads the header that tells the caller's place in a trace. It
// returns false where there is none or it is malformed.
func ParseTraceparent(s string) (trace Trace, sampled, ok bool) {
	if len(s) < traceparentLength || s[2] != '-' || s[35] != '-' || s[52] != '-' ||
		s[:2] == "ff" || s[:2] == "00" && len(s) != traceparentLength ||
		len(s) > traceparentLength && s[traceparentLength] != '-' ||
		strings.ToLower(s[:traceparentLength]) != s[:traceparentLength] {
		return Trace{}, false, false
	}
	var version, flags [1]byte
	for _, part := range [...]struct {
		to   []byte
		from string
	}{{version[:], s[:2]}, {trace.ID[:], s[3:35]}, {trace.Parent[:], s[36:52]}, {flags[:], s[53:55]}} {
		if _, err := hex.Decode(part.to, []byte(part.from)); err != nil {
			return Trace{}, false, false
		}
	}
	if (trace.ID == TraceID{}) || (trace.Parent == SpanID{}) {
		return Trace{}, false, false
	}
	return trace, flags[0]&1 != 0, true
}

// Traceparent writes the header that tells a backend its place in a trace.
func Traceparent(id TraceID, span SpanID) string {
	b := make([]byte, 0, traceparentLength)
	b = append(b, "00-"...)
	b = hex.AppendEncode(b, id[:])
	b = append(b, '-')
	b = hex.AppendEncode(b, span[:])
	return string(append(b, "-01"...))
}
