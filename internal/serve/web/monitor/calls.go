package monitor

import (
	"encoding/hex"
	"errors"
	"net/http"
	"time"

	"github.com/patchbay-ai/patchbay/internal/hosts/backend"
	"github.com/patchbay-ai/patchbay/internal/plain/say"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
	"github.com/patchbay-ai/patchbay/internal/see/calls"
	"github.com/patchbay-ai/patchbay/internal/see/metrics"
	"github.com/patchbay-ai/patchbay/internal/serve/web"
)

// CallView is the record of one request as JSON. It has nothing of the bodies.
type CallView struct {
	RequestID  string             `json:"requestId"`
	Number     uint64             `json:"number,omitzero"`
	Time       string             `json:"time" format:"date-time"`
	Service    schema.ServiceType `json:"service"`
	Door       schema.Door        `json:"door" doc:"The endpoint to which the request came."`
	Model      string             `json:"model,omitzero"`
	Asked      string             `json:"asked,omitzero"`
	Instance   string             `json:"instance,omitzero"`
	Handle     string             `json:"handle,omitzero" doc:"Of the instance, as in X-Router-Instance."`
	Strategy   string             `json:"strategy,omitzero" doc:"How the instance was picked."`
	Candidates *candidates        `json:"candidates,omitzero" doc:"The instances of the model at the first pick."`
	KeyID      string             `json:"keyId,omitzero"`
	Tenant     string             `json:"tenant,omitzero" doc:"Whom the request was counted for."`
	User       string             `json:"user,omitzero" doc:"For whom it was made."`
	Run        string             `json:"run,omitzero" doc:"The id of the agent's run that it belongs to."`
	ClientIP   string             `json:"clientIp,omitzero"`
	Status     callStatus         `json:"status"`
	Outcome    calls.Outcome      `json:"outcome" doc:"How it ended for its caller."`
	HTTPStatus int                `json:"httpStatus,omitzero"`
	ErrorCode  string             `json:"errorCode,omitzero"`
	Message    string             `json:"errorMessage,omitzero"`
	Said       []say.Sentence     `json:"said,omitzero" doc:"What the caller was told as codes and values."`
	RefusedBy  string             `json:"refusedBy,omitzero"`
	Until      string             `json:"refusedUntil,omitzero" format:"date-time"`
	Streamed   bool               `json:"streamed"`
	ClientGone bool               `json:"clientGone,omitzero"`
	DurationMs float64            `json:"durationMs"`
	FirstMs    float64            `json:"timeToFirstTokenMs,omitzero"`
	PerTokenMs float64            `json:"timePerOutputTokenMs,omitzero"`
	TargetMs   float64            `json:"ttftTargetMs,omitzero" doc:"What x-router-ttft-target asked for."`
	TargetMet  *bool              `json:"ttftTargetMet,omitzero"`
	Usage      *callUsage         `json:"usage,omitzero"`
	Cost       int64              `json:"cost,omitzero" doc:"In millionths of the unit of prices.currency."`
	Cache      cacheWord          `json:"cache,omitzero" doc:"What the cache of answers did, where it is on."`
	Attempts   int                `json:"attempts"`
	Pieces     int                `json:"pieces,omitzero" doc:"Over how many calls the request was split, if it was."`
	Resumed    int                `json:"resumed,omitzero" doc:"How often another instance took over a broken stream."`
	Hedge      hedgeWord          `json:"hedge,omitzero"`
	Timeline   callTimeline       `json:"timeline,omitzero"`
	Tries      []callTry          `json:"tries"`
	TraceID    string             `json:"traceId,omitzero"`
}

// Docs says more about some members than a tag has room for.
func (CallView) Docs() map[string]string {
	return map[string]string{
		"number": "The place of the call among all that were recorded; with it a call of the file is found at " +
			"once.",
		"asked": "The name that the caller gave, where it is not that of the model that served: an alias, a " +
			"model with fallbacks, or the name of no model.",
		"outcome": "answered: by the first instance that was tried. rescued: by another instance or model, after " +
			"an attempt failed. lost: let in, and not answered or only in part. refused: it broke a rule (a " +
			"limit, a budget, a key, a permission, the form of the request, the name of no model). gone: its " +
			"caller left. stopped: an operator ended it.",
		"errorMessage": "What the caller was told, at most 600 characters. VIEWER is not shown what a backend " +
			"said in it, here and in the other texts about errors.",
		"refusedBy": "Whose limit or budget refused the request: key/…, tenant/…, service/…, model/… or " +
			"instances/… (those of a model), and a name.",
		"refusedUntil": "When it lets requests in, if known.",
		"timeToFirstTokenMs": "From the arrival of the request to the first content of a stream: text, " +
			"reasoning, a refusal or a tool call.",
		"timePerOutputTokenMs": "Of a stream: from its first content to its end, divided by the tokens after " +
			"the first. Left out where the answer is not complete or the backend did not count its tokens.",
		"ttftTargetMet": "Whether the first content came within that time, from the arrival of the request on. Left " +
			"out where it did not ask, was refused, or its client left before.",
		"hedge": "What became of a second call that was due because the first took longer than such calls do: " +
			"it won, it lost, or it was refused.",
	}
}

type callUsage struct {
	PromptTokens     int64 `json:"promptTokens"`
	CompletionTokens int64 `json:"completionTokens"`
	TotalTokens      int64 `json:"totalTokens"`
}

// callTimeline has when each step had ended, counted from the arrival of the request,
// and how long the waits were.
type callTimeline struct {
	ReceivedMs  float64 `json:"receivedMs"`
	LimiterMs   float64 `json:"limiterMs,omitzero"`
	FirstByteMs float64 `json:"firstByteMs,omitzero" doc:"When the answer began, for a stream with its first event."`
	// FirstTokenMs is later than FirstByteMs where a stream begins before its content.
	FirstTokenMs float64 `json:"firstTokenMs,omitzero" doc:"When the first content of the answer had come."`
	EndMs        float64 `json:"endMs"`
	QueuedMs     float64 `json:"queuedMs"`
	HeldMs       float64 `json:"heldMs,omitzero" doc:"The part of queuedMs spent waiting for the model to load."`
	UpstreamMs   float64 `json:"upstreamMs"`
	GatewayMs    float64 `json:"gatewayMs"`
}

// candidates counts the instances among which one was picked.
type candidates struct {
	Total      int            `json:"total"`
	Ready      int            `json:"ready" doc:"Those that might have been picked."`
	PassedOver map[string]int `json:"passedOver,omitzero"`
}

// Docs says more about some members than a tag has room for.
func (candidates) Docs() map[string]string {
	return map[string]string{
		"passedOver": "The others, by reason: disabled, no_weight, faulty, unhealthy, breaker_open, at_limit, " +
			"no_slot, standby (a lower tier was ready), context_window (of another one, which suits better).",
	}
}

func candidatesOf(c *calls.Record) *candidates {
	if c.Strategy == "" {
		return nil // routing did not come that far
	}
	var all candidates
	for reason, count := range c.Candidates {
		n := int(count)
		all.Total += n
		switch {
		case n == 0:
		case backend.Obstacle(reason) == backend.NoObstacle:
			all.Ready = n
		default:
			if all.PassedOver == nil {
				all.PassedOver = map[string]int{}
			}
			all.PassedOver[backend.Obstacle(reason).String()] = n
		}
	}
	return &all
}

type callTry struct {
	Instance  string  `json:"instance"`
	Handle    string  `json:"handle"`
	PickMs    float64 `json:"pickMs"`
	ConnectMs float64 `json:"connectMs,omitzero"`
	// Reused says that the attempt used an existing connection.
	Reused      bool           `json:"reusedConnection"`
	Resumed     string         `json:"resumed,omitzero" doc:"How it took over a broken stream: continued or aligned."`
	FirstByteMs float64        `json:"firstByteMs,omitzero"`
	EndMs       float64        `json:"endMs"`
	HTTPStatus  int            `json:"httpStatus,omitzero" doc:"That of the backend's answer."`
	ErrorCode   string         `json:"errorCode,omitzero"`
	Cause       string         `json:"cause,omitzero"`
	ErrorText   string         `json:"errorText,omitzero" doc:"At most 300 characters, without secrets and addresses."`
	URL         string         `json:"url,omitzero" doc:"Where a failed attempt was sent, without its query."`
	Said        []say.Sentence `json:"said,omitzero" doc:"The text of the error as codes and values."`
	// Estimate is nil where the strategy expects nothing.
	Estimate *callEstimate `json:"estimate,omitzero" doc:"What was expected at the pick; only with least_time."`
}

// callEstimate is the gateway's estimate for an instance, beside the true figures.
type callEstimate struct {
	ExpectedMs float64 `json:"expectedMs" doc:"The time to the first token, from the pick on."`
	TrueMs     float64 `json:"trueMs,omitzero"`
	Matched    float64 `json:"matched" minimum:"0" maximum:"1" doc:"The share of the prompt believed in its cache."`
}

// Docs says more about some members than a tag has room for.
func (callEstimate) Docs() map[string]string {
	return map[string]string{
		"trueMs": "The same as it came true. Left out where the first token was not seen, as of answers that " +
			"come whole.",
	}
}

// estimateOf returns the estimate for an attempt, nil if there was none.
func estimateOf(c *calls.Record, try *calls.Try) *callEstimate {
	if try.Expected <= 0 {
		return nil
	}
	return &callEstimate{ExpectedMs: inMilliseconds(try.Expected), TrueMs: inMilliseconds(c.FirstTokenOf(try)),
		Matched: rounded(try.Matched)}
}

// cacheWord names the part that the cache of answers had in a call.
type cacheWord string

// Names returns every word.
func (cacheWord) Names() []string {
	return []string{metrics.CacheHit.String(), metrics.CacheMiss.String(), metrics.CacheBypass.String(),
		metrics.CacheShared.String()}
}

// hedgeWord names the outcome of a second call.
type hedgeWord string

// Names returns every word.
func (hedgeWord) Names() []string {
	return []string{metrics.HedgeWon.String(), metrics.HedgeLost.String(), metrics.HedgeRefused.String()}
}

// callStatus is the outcome of a call.
type callStatus string

// rejected is the status of a request that reached no backend.
const rejected callStatus = "rejected"

// Names returns every status.
func (callStatus) Names() []string {
	names := []string{string(rejected)}
	for result := range schema.Result(schema.ResultCount) {
		if !result.Rejected() {
			names = append(names, result.String())
		}
	}
	return names
}

// statusOf returns how a call ended.
func statusOf(c *calls.Record) callStatus {
	if c.Result.Rejected() {
		return rejected
	}
	return callStatus(c.Result.String())
}

func viewOfCall(c *calls.Record, words web.Wording) CallView {
	view := CallView{
		RequestID: c.RequestID, Number: c.Sequence, Time: web.Time(c.Started), Service: c.Service, Door: c.Door,
		Model: c.Model, Asked: c.Asked, Instance: c.Instance, KeyID: c.KeyID, Tenant: c.Tenant, User: c.User,
		Run:      c.Run,
		Strategy: c.Strategy, Candidates: candidatesOf(c), Status: statusOf(c), HTTPStatus: c.Status, ErrorCode: c.Code,
		Outcome: c.Outcome(), Streamed: c.Streamed, ClientGone: c.Gone,
		DurationMs: inMilliseconds(c.Ended), Cache: cacheWord(c.Cache.String()), Attempts: c.Attempts, Pieces: c.Pieces,
		Resumed: c.Resumed, Hedge: hedgeWord(c.Hedge.String()), Tries: make([]callTry, 0, len(c.Described())),
		Timeline: callTimeline{
			ReceivedMs: inMilliseconds(c.Ready), LimiterMs: inMilliseconds(c.Limited),
			FirstByteMs:  inMilliseconds(c.FirstByte),
			FirstTokenMs: inMilliseconds(c.FirstToken), EndMs: inMilliseconds(c.Ended),
			QueuedMs: inMilliseconds(c.Queued), HeldMs: inMilliseconds(c.Held), UpstreamMs: inMilliseconds(c.Upstream),
			GatewayMs: inMilliseconds(c.Overhead()),
		},
	}
	if told := c.Told; told != nil {
		view.RefusedBy = told.Of
		view.Message, view.Said = words(told.Said)
		if !told.Until.IsZero() {
			view.Until = web.Time(told.Until)
		}
	}
	if c.Instance != "" {
		view.Handle = backend.Handle(c.Instance)
	}
	if c.Client.IsValid() {
		view.ClientIP = c.Client.String()
	}
	if c.Streamed {
		view.FirstMs, view.PerTokenMs = inMilliseconds(c.FirstToken), inMilliseconds(c.PerToken)
	}
	view.TargetMs = inMilliseconds(c.Target)
	if met := c.TargetMet(); met != metrics.NoTarget {
		view.TargetMet = new(met == metrics.TargetKept)
	}
	if c.Usage.Known {
		view.Usage = &callUsage{c.Usage.Prompt, c.Usage.Completion, c.Usage.Total}
	}
	view.Cost = c.Cost.Micros()
	for _, t := range c.Described() {
		text, said := words(t.Sentence())
		view.Tries = append(view.Tries, callTry{
			Instance: t.Instance, Handle: backend.Handle(t.Instance), HTTPStatus: t.Status, ErrorText: text, URL: t.URL,
			Said: said, PickMs: inMilliseconds(t.Began), ConnectMs: inMilliseconds(t.Sent), Reused: t.Reused,
			Resumed:     t.Resumed,
			FirstByteMs: inMilliseconds(t.FirstByte), EndMs: inMilliseconds(t.Ended), ErrorCode: t.Code, Cause: t.Cause,
			Estimate: estimateOf(c, &t),
		})
	}
	if c.Traced() {
		view.TraceID = hex.EncodeToString(c.Trace.ID[:])
	}
	return view
}

// HideHosts removes the instances behind the gateway, and the address of the client.
func (v *CallView) HideHosts() {
	v.Instance, v.Handle, v.Strategy, v.Candidates, v.ClientIP, v.TraceID = "", "", "", nil, "", ""
	v.Tries = []callTry{}
}

// stream sends every call that is recorded from now on as a server-sent event. It ends
// the stream of a client that reads too slowly.
func (a *API) stream(w http.ResponseWriter, r *http.Request) {
	feed, err := a.Recorder.Subscribe()
	if err != nil {
		status := http.StatusServiceUnavailable
		if errors.Is(err, calls.ErrSubscribers) {
			status = http.StatusTooManyRequests
		}
		fail(w, r, &web.RequestError{Status: status, Why: say.From(err)})
		return
	}
	defer feed.Close()
	words := web.WordingFor(web.IdentityOf(r).Role)
	events := newEventStream(w)
	events.begin()
	events.write(": calls as they end\n\n")
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for events.flush() && !feed.HasEnded() {
		select {
		case <-r.Context().Done():
			return
		case now := <-tick.C:
			events.keepAlive(now)
		case <-feed.Ready():
			for call := range feed.Waiting() {
				if data, err := web.Encode(viewOfCall(call, words)); err == nil { // a view can always be encoded
					events.write("event: call\ndata: " + string(data) + "\n\n")
				}
				if feed.Done(call.Sequence); !events.flush() {
					return
				}
			}
		}
	}
}
