package web

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"strconv"
	"time"

	"github.com/patchbay-ai/patchbay/internal/access"
	"github.com/patchbay-ai/patchbay/internal/plain/say"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
	"github.com/patchbay-ai/patchbay/internal/store/durable"
)

// Trail keeps lasting records of operations: of changes, sign-ins, and reads of contents.
type Trail interface {
	// Begin notes an operation before it is done, and returns an id for End or Drop. After an
	// error it cannot be recorded now; *TooMany means that the caller made too many changes.
	Begin(ctx context.Context, act Act) (id string, err error)
	// End records an operation with its result, at once or as soon as possible. Equal refused
	// ones may be one record. The id is empty for an operation that Begin did not note.
	End(ctx context.Context, id string, act Act)
	// Drop forgets an operation that changed nothing.
	Drop(ctx context.Context, id string, act Act)
}

// TooMany is the error of a change by a caller who made too many. Another one may be made after
// Wait.
type TooMany struct{ Wait time.Duration }

func (e *TooMany) Error() string { return "too many changes" }

// Act is an operation as a Trail records it. It holds neither secrets nor contents.
type Act struct {
	Began          time.Time
	Who, Role      string
	Address        string
	Action, Object string
	Result, Tenant string
	// Caller distinguishes callers: the token, the person, or the network of a caller without a
	// valid credential, for whom IsStranger is true. IsLimited is true if the number of their
	// records is bounded.
	Caller                string
	IsStranger, IsLimited bool
	// SignsIn and Folds are those of the route.
	SignsIn, Folds bool
}

// recording is the way of one operation to the trail.
type recording struct {
	trail  Trail
	ctx    context.Context
	w      http.ResponseWriter
	r      *http.Request
	route  *Route
	act    Act
	id     string
	isDone bool
}

// errUnrecorded refuses a change that the trail cannot record.
func errUnrecorded(err error) say.Sentence {
	if durable.IsFull(err) {
		return say.New("manage.unrecorded_full")
	}
	return say.New("manage.unrecorded")
}

// record begins the record of an operation. It reports false if it has refused the request,
// because the operation cannot be recorded and takes nothing away.
func (g *Gate) record(w http.ResponseWriter, r *http.Request, route *Route, who access.Identity) (*recording, bool) {
	if g.options.Trail == nil || route.Asks {
		return nil, true
	}
	rec := &recording{trail: g.options.Trail, ctx: context.WithoutCancel(r.Context()), w: w, r: r, route: route,
		act: g.actOf(r, route, who)}
	rec.concern(nil)
	var err error
	if rec.act.Who != "" { // strangers leave no intents, because writing one takes the disk's time
		rec.id, err = rec.trail.Begin(rec.ctx, rec.act)
	}
	if err != nil {
		var many *TooMany
		isMany := errors.As(err, &many)
		rec.id, rec.act.Folds = "", rec.act.Folds || isMany
		if !route.takesAway(w, r) {
			if r.ContentLength != 0 {
				w.Header().Set("Connection", "close") // the body is not read
			}
			if isMany {
				w.Header().Set("Retry-After", strconv.Itoa(int((many.Wait+time.Second-1)/time.Second)))
				said := say.New("manage.audit_rate_limited")
				WriteJSON(w, http.StatusTooManyRequests, Fault{Message: said.String(),
					ErrorType: schema.TypeRateLimit, ErrorCode: schema.CodeAuditRateLimited, Said: SaidTo(w, said)})
				return nil, false
			}
			w.Header().Set("Retry-After", "5")
			Refuse(w, http.StatusServiceUnavailable, errUnrecorded(err))
			return nil, false
		}
	}
	if response, ok := w.(*Response); ok {
		response.recording = rec
	}
	return rec, true
}

// Intend notes that an operation begins, before it is done, for somebody whom its handler has made
// known, such as a person who signs in. An error is for the caller: the operation cannot be recorded.
func Intend(w http.ResponseWriter, who access.Identity) error {
	ChangeOf(w).Who = who
	response, ok := w.(*Response)
	if !ok || response.recording == nil {
		return nil
	}
	rec := response.recording
	rec.act.by(&who)
	id, err := rec.trail.Begin(rec.ctx, rec.act)
	if err != nil {
		return say.Wrap(err, errUnrecorded(err).Code)
	}
	rec.id = id
	return nil
}

func (g *Gate) actOf(r *http.Request, route *Route, who access.Identity) Act {
	act := Act{Began: time.Now(), Action: route.Pattern, Object: loggedPath(r), SignsIn: route.SignsIn,
		Folds: route.Folds}
	if addr := ClientAddr(r, g.options.TrustedProxies); addr.IsValid() {
		act.Address, act.Caller = addr.String(), networkOf(addr)
	}
	act.by(&who)
	if who.IsOpen {
		act.IsLimited = !g.options.Loopback || !who.Role.Valid()
	}
	if tenant := r.PathValue(tenantParameter); tenant != "" {
		act.Tenant = tenant
	}
	return act
}

// networkOf returns what distinguishes callers by their address: in IPv6 a caller has a whole /64.
func networkOf(addr netip.Addr) string {
	if addr = addr.Unmap(); addr.Is4() {
		return addr.String()
	}
	network, _ := addr.Prefix(64) // an address of IPv6 has one
	return network.String()
}

// by names who did it. The name of a person is not enough, because providers let people change it.
func (a *Act) by(who *access.Identity) {
	a.Who, a.Role = who.String(), who.RoleName()
	a.IsStranger = a.Who == "" || who.IsOpen
	a.IsLimited = who.Role != access.Admin && who.Role != access.Operator
	switch {
	case who.IsPerson():
		a.Caller = who.Owner().ID()
	case !a.IsStranger:
		a.Caller = "token " + who.Name
	}
	if len(who.Memberships) == 1 && !who.Role.Valid() {
		a.Tenant = who.Memberships[0].Tenant
	}
}

// concern notes the tenant that the operation concerns, as the route returns it before the
// operation, or with its reply.
func (rec *recording) concern(reply any) {
	if rec.route.Concerns == nil || rec.act.Who == "" {
		return
	}
	if tenant := rec.route.Concerns(rec.r, reply); tenant != "" {
		rec.act.Tenant = tenant
	}
}

// end records the operation, once: before the first byte of its reply leaves, or when the
// handler has returned without one.
func (rec *recording) end(status int) {
	if rec == nil || rec.isDone {
		return
	}
	rec.isDone = true
	change := ChangeOf(rec.w)
	if change.DryRun && status < http.StatusBadRequest {
		rec.trail.Drop(rec.ctx, rec.id, rec.act)
		return
	}
	if change.Who.String() != "" {
		rec.act.by(&change.Who)
	}
	if change.Reply != nil {
		rec.concern(change.Reply)
	}
	act := rec.act
	if change.Summary != "" {
		act.Object += ": " + change.Summary
	}
	act.Result = resultOf(status)
	act.Folds = act.Folds || act.Who == "" // they may be many
	rec.trail.End(rec.ctx, rec.id, act)
}

// resultOf describes a status in records.
func resultOf(status int) string {
	word := "done"
	switch {
	case status == 0:
		status, word = http.StatusInternalServerError, "failed"
	case status >= http.StatusInternalServerError:
		word = "failed"
	case status >= http.StatusBadRequest:
		word = "refused"
	}
	return fmt.Sprintf("%d %s", status, word)
}

// refused records a request that the gate has refused: one that would have been recorded, or one
// with a wrong token.
func (g *Gate) refused(w http.ResponseWriter, r *http.Request, route *Route, who access.Identity) {
	status := RecordOf(w).Status
	isAudited := !route.Asks && (!isSafe(r.Method) || route.Audited) && status != http.StatusServiceUnavailable
	isWrong := who.String() == "" && r.Header.Get("Authorization") != "" &&
		(status == http.StatusUnauthorized || status == http.StatusTooManyRequests)
	if isWrong && g.options.SignIns != nil {
		g.options.SignIns.Wrong.Add(1)
	}
	if g.options.Trail == nil || !isAudited && !isWrong {
		return
	}
	act := g.actOf(r, route, who)
	act.Result = resultOf(status)
	g.options.Trail.End(context.WithoutCancel(r.Context()), "", act)
}

// Ungated returns the handler of a route for a caller who need not pass a gate, and is recorded.
func Ungated(route Route, who access.Identity, trail Trail) http.HandlerFunc {
	g := &Gate{options: GateOptions{Trail: trail}}
	return func(w http.ResponseWriter, r *http.Request) {
		response := &Response{ResponseWriter: w}
		if !isSafe(r.Method) {
			recording, may := g.record(response, r, &route, who)
			if !may {
				return
			}
			defer func() { recording.end(response.call.Status) }()
		}
		route.Handler(response, WithIdentity(r, who))
	}
}

// takesAway reports whether a request takes something away, as the route tells of the request's
// body. The handler can read the body again.
func (route *Route) takesAway(w http.ResponseWriter, r *http.Request) bool {
	if route.Takes == nil {
		return false
	}
	body, err := ReadBody(w, r)
	if err != nil {
		return false
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	return route.Takes(body)
}

// Always is the Route.Takes of operations that do nothing but take something away.
func Always([]byte) bool { return true }
