// Package v1 is the unified API: the endpoints under /v1 that every client of
// an OpenAI-compatible service knows.
package v1

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/patchbay-ai/patchbay/internal/access"
	"github.com/patchbay-ai/patchbay/internal/count/memory"
	"github.com/patchbay-ai/patchbay/internal/count/quota"
	"github.com/patchbay-ai/patchbay/internal/plain/say"
	"github.com/patchbay-ai/patchbay/internal/request/recall"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
	"github.com/patchbay-ai/patchbay/internal/route/account"
	"github.com/patchbay-ai/patchbay/internal/route/proxy"
	"github.com/patchbay-ai/patchbay/internal/route/routing"
	"github.com/patchbay-ai/patchbay/internal/see/calls"
	"github.com/patchbay-ai/patchbay/internal/serve/web"
)

// API answers the unified endpoints.
type API struct {
	proxy   *proxy.Proxy
	current *routing.Current
	options Options
	pool    sync.Pool
	inputs  sync.Pool
	buffers buffers
	running atomic.Int64
	lines   lines
	answers recall.Store // nil where no responses are kept
	warned  atomic.Int64 // when it was logged that responses are not kept, in seconds
}

// Options are the settings of the API that do not change while it runs.
type Options struct {
	// TrustedProxies are the proxies that may set X-Forwarded-For.
	TrustedProxies []netip.Prefix
	// Keys decides who may ask.
	Keys access.Callers
	// Memory reports whether there is memory for more requests, and has the budget for
	// their bodies; nil means that there is no bound.
	Memory *memory.Watch
	// Uploads is the space on disk that uploads share; nil means that there is no bound.
	Uploads *memory.Room
	// Recorder keeps parts of requests beside their records; nil keeps nothing.
	Recorder *calls.Recorder
	// Log gets the failures that no client learns of; nil drops them.
	Log *slog.Logger
}

// New returns the unified API in front of a proxy.
func New(p *proxy.Proxy, current *routing.Current, options Options) *API {
	if options.Log == nil {
		options.Log = slog.New(slog.DiscardHandler)
	}
	return &API{
		proxy: p, current: current, options: options,
		pool:   sync.Pool{New: func() any { return new(exchange) }},
		inputs: sync.Pool{New: func() any { return new(input) }},
	}
}

// KeepAnswers has a store keep the responses of the Responses API. It is called before the
// first request.
func (a *API) KeepAnswers(store recall.Store) { a.answers = store }

// identify checks the caller's key.
func (a *API) identify(x *exchange) error {
	grant, err := a.options.Keys.Identify(x.r.Header, x.caller.Addr)
	if err != nil {
		return err
	}
	x.use(grant, web.FirstOf(x.r.Header, "X-Tenant-Id"))
	if !grant.NamesUser() {
		return nil
	}
	if x.caller.User, err = grant.UserOf(x.r.Header); err != nil {
		return err
	}
	x.call.User = quota.UserName(x.caller.User)
	return nil
}

// answer gives the proxy a request that was read without an error. It answers with any
// error, whichever step returned it.
func (a *API) answer(x *exchange, err error) {
	if err == nil {
		err = a.route(x)
	}
	if err != nil {
		x.fail(err)
	}
}

// route gives the proxy a request that is complete and valid.
func (a *API) route(x *exchange) error {
	x.table = a.current.Load() // the body may have taken minutes
	if x.door.tagged {
		x.dropLatest()
	}
	way := &x.way
	way.Asks, way.Owner, way.Caller, way.Record, way.Table = &x.request, x, &x.caller, x.call, x.table
	if len(x.request.User) > 0 && x.call.User == "" {
		x.call.User = quota.UserName(string(x.request.User))
	}
	if err := way.RefuseModel(); err != nil {
		x.call.Asked = shorten(string(x.request.Model))
		return err
	}
	if x.door.local != nil || x.door.estimate != nil {
		// A request that the proxy would refuse gets no answer here either.
		if err := proxy.CheckHeaders(way); err != nil {
			return err
		}
	}
	if x.door.local != nil {
		if isLocal, err := x.door.local(a, x); isLocal {
			return err
		}
	}
	way.Client, way.NoStore = x.door.client, saysNoStore(x.r.Header)
	if x.door.choose != nil {
		way.Client = x.door.choose(&x.request)
	}
	if x.door.open != nil {
		var err error
		if way.Client, err = x.door.open(a, x); err != nil {
			return err
		}
	}
	if x.caller.Grant != nil {
		a.guardAccount(x)
	}
	var estimate []byte
	if x.door.estimate != nil && x.table.Service(x.request.Service).Serves(x.request.Model) {
		estimate = x.door.estimate(x) // the request is gone when the proxy returns
	}
	err := a.proxy.Do(a.enter(x), way, x)
	if estimate != nil && isUnanswered(err) {
		x.answerEstimate(estimate)
		return nil
	}
	return err
}

// isUnanswered reports whether an error says that no backend has answered, although the limits
// allow the request.
func isUnanswered(err error) bool {
	var known *schema.Error
	return errors.As(err, &known) && schema.ResultOf(known.Code) != schema.ResultRateLimited
}

// enter returns the context of the request, which an end of its run ends, and lists the request,
// unless nothing is recorded, so that operators can end it, too.
func (a *API) enter(x *exchange) context.Context {
	ctx := x.r.Context()
	one := &x.running
	one.RequestID, one.Started, one.Service, one.Door = x.call.RequestID, x.call.Started, x.call.Service, x.call.Door
	one.KeyID, one.Tenant, one.User, one.Client = x.call.KeyID, x.call.Tenant, x.call.User, x.caller.Addr
	var ok bool
	if one.Stopper, ok = ctx.(interface{ Stop(cause error) }); !ok {
		// Not a request of HTTP/1.1, which can be ended without further memory.
		var end context.CancelCauseFunc
		ctx, end = context.WithCancelCause(ctx)
		one.Stopper = stopper(end)
	}
	x.call.Running = one
	if a.options.Recorder.On() {
		a.options.Recorder.Enter(one)
	}
	return ctx
}

// stopper ends a context.
type stopper context.CancelCauseFunc

// Stop ends it with a cause.
func (s stopper) Stop(cause error) { s(cause) }

// leave undoes enter.
func (a *API) leave(x *exchange) {
	if x.call == nil || x.call.Running == nil {
		return
	}
	a.options.Recorder.Leave(x.call.Running)
	x.call.Running = nil
	if end, ok := x.running.Stopper.(stopper); ok {
		end(nil)
	}
}

// answerEstimate answers with the gateway's own estimate.
func (x *exchange) answerEstimate(body []byte) {
	x.call.Code, x.call.Told = "", nil
	x.w.Header()["X-Router-Estimated"] = []string{"true"}
	x.Head(proxy.Head{Form: account.Form{ContentType: proxy.TypeJSON, Length: len(body)}})
	_, _ = x.w.Write(body) // a client that left does not need it
}

// begin returns an exchange for a request, filled from its head.
func (a *API) begin(w http.ResponseWriter, r *http.Request, d *door) *exchange {
	if d.modelInPath {
		takeQueryKey(r)
	}
	x := a.pool.Get().(*exchange)
	x.w, x.r, x.call, x.door = w, r, web.RecordOf(w), d
	x.call.Unified, x.call.Service, x.call.Door, x.call.Route = true, d.id.Service(), d.id, d.path
	x.table, x.buffers, x.log = a.current.Load(), &a.buffers, a.options.Log
	if captured := a.options.Recorder.Capture(); captured != nil {
		captured.SetHeaders(maskedHeaders(r.Header))
		x.call.Captured = captured
	}
	x.take(&a.inputs)
	if d.modelInPath {
		x.request.PathModel = r.PathValue("model")
	}
	if d.id.IsTranslated() {
		x.request.Header, x.request.Query = r.Header, r.URL.RawQuery
	}
	if d.errors != nil {
		showRequestID(w.Header())
	}
	x.caller = access.Caller{
		Addr:        web.ClientAddr(r, a.options.TrustedProxies),
		RequestID:   x.call.RequestID,
		Header:      r.Header,
		Traceparent: web.FirstOf(r.Header, "Traceparent"),
		Tracestate:  web.FirstOf(r.Header, "Tracestate"),
		Retry:       isRetry(web.FirstOf(r.Header, "X-Stainless-Retry-Count")),
	}
	if hops := r.Header["Cdn-Loop"]; len(hops) > 0 {
		x.caller.Hops = strings.Join(hops, ", ")
	}
	return x
}

// saysNoStore reports whether a client wants nothing of the answer to be kept.
func saysNoStore(header http.Header) bool {
	for _, value := range header["Cache-Control"] {
		if strings.Contains(strings.ToLower(value), "no-store") {
			return true
		}
	}
	return false
}

// isRetry reports whether a client says that it sent the request before. OpenAI's client
// libraries, and others that are built on them, send the count.
func isRetry(count string) bool {
	if count == "" {
		return false
	}
	n, err := strconv.Atoi(count)
	return err == nil && n > 0
}

// Bearer is the sender of a request, if the sender is known before the request comes.
type Bearer struct {
	// Grant holds the permissions of the key, nil where none is needed. The request then
	// counts for Tenant.
	Grant  *access.Grant
	Tenant string
	// User is the person for whom the request is made, if a header that the key trusts
	// names one.
	User string
}

// ServeAs answers a line of a batch as a request to a door, in the name of a bearer. It
// takes only slots that no request waits for. It returns the error of its answer, or nil.
func (a *API) ServeAs(w http.ResponseWriter, r *http.Request, as Bearer) *schema.Error {
	at := slices.IndexFunc(doors, func(d *door) bool { return d.path == r.URL.Path && d.json != nil })
	if at < 0 {
		return schema.CodedError(schema.CodeUnknownEndpoint, "call.no_door", "name", shorten(r.URL.Path))
	}
	x := a.begin(w, r, doors[at])
	defer a.end(x)
	x.isLine = true
	err := a.refuseOverload(x)
	if err == nil {
		x.use(as.Grant, as.Tenant)
		if as.User != "" {
			x.caller.User, x.call.User = as.User, quota.UserName(as.User)
		}
		x.way.Class = schema.Spare
		x.memory = a.options.Memory.Bodies().Lease(x.caller.KeyID, x.caller.Addr)
		err = x.readJSON(x.door.json)
	}
	a.answer(x, err)
	return x.told
}

// use makes the bearer of a key the caller, or a member of a tenant where no key is needed.
func (x *exchange) use(grant *access.Grant, tenant string) {
	if grant == nil {
		x.caller.Tenant, x.call.Tenant = tenant, shorten(tenant)
		return
	}
	x.caller.Grant, x.caller.KeyID, x.caller.Tenant = grant, grant.ID, grant.Tenant
	x.call.KeyID, x.call.Tenant = grant.ID, grant.Tenant
}

// admit returns an error if too many requests are running, if memory is short, or if the
// key of the request is not valid. The overload checks come first, because they are cheap:
// refused requests must not slow down the running ones.
func (a *API) admit(x *exchange) error {
	if err := a.refuseOverload(x); err != nil {
		return err
	}
	if err := a.identify(x); err != nil {
		return err
	}
	x.memory = a.options.Memory.Bodies().Lease(x.caller.KeyID, x.caller.Addr)
	x.spool.space = a.options.Uploads.Lease(x.caller.KeyID, x.caller.Addr)
	return nil
}

// refuseOverload counts the request, and returns an error if too many are running or memory
// is short. A line of a batch that has no room is not counted.
func (a *API) refuseOverload(x *exchange) error {
	var hasRoom bool
	if x.isLine {
		hasRoom = a.lines.take(&a.running, x.table.Limits.MaxInFlight)
		x.isUncounted = !hasRoom
	} else {
		running, most := a.running.Add(1), int64(x.table.Limits.MaxInFlight)
		hasRoom = most <= 0 || running <= most
	}
	if hasRoom && (a.options.Memory == nil || !a.options.Memory.Short()) {
		return nil
	}
	err := overloaded(say.New("call.overloaded"))
	if x.r.ContentLength != 0 {
		return unread{err}
	}
	return err
}

// end puts the exchange back into the pool.
func (a *API) end(x *exchange) {
	switch {
	case x.isUncounted:
	case x.isLine:
		a.lines.giveBack(&a.running)
	default:
		a.running.Add(-1)
	}
	a.leave(x)
	x.TakeBack()
	*x = exchange{} // the pool keeps nothing of a request in memory
	a.pool.Put(x)
}
