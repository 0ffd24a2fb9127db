package web

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/patchbay-ai/patchbay/internal/access"
	"github.com/patchbay-ai/patchbay/internal/access/sessions"
	"github.com/patchbay-ai/patchbay/internal/plain/say"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
	"github.com/patchbay-ai/patchbay/internal/see/logs"
)

// Gate controls the access to all routes. For routes outside the unified API it identifies
// the caller, checks the permission, and writes the audit log.
type Gate struct {
	options   GateOptions
	crossSite *http.CrossOriginProtection
	origins   *origins
}

// GateOptions are the settings of a Gate.
type GateOptions struct {
	// Roster returns the management tokens in force; nil, or a nil roster, means
	// that no tokens are needed.
	Roster func() *access.Roster
	// Sessions find the person who holds a session of a browser, by the text of the cookie. The
	// first one that knows it decides; a session that none of them knows belongs to a token.
	Sessions []func(text string, now time.Time) (who access.Identity, known bool, err error)
	// PublicURL decides the names of cookies.
	PublicURL PublicURL
	// Kept knows which sessions were ended; nil means that none was.
	Kept *sessions.Sessions
	// Attempts delays clients that present wrong tokens; nil delays no client.
	Attempts *access.Attempts
	// SignIns counts requests with wrong tokens.
	SignIns *access.SignIns
	// Ready reports whether the credentials are known; nil means that they are. Until then
	// the gate refuses every request that needs a permission, and NotReady answers requests
	// to the unified API.
	Ready    func() bool
	NotReady http.HandlerFunc
	// AllowOpen allows requests that a proxy forwarded to a gateway that needs no
	// tokens because it listens on loopback.
	AllowOpen bool
	// Loopback says that only this machine can reach the gateway.
	Loopback bool
	// Hosts are the host names that may be used to manage a gateway on loopback without
	// tokens, beside localhost and the loopback addresses.
	Hosts []string
	// Origins are the web origins with pages that may use the guarded routes; "*" is none.
	Origins []string
	// KeysNeeded reports whether callers of the unified API need a key; nil means that they
	// do not. Fail answers refused callers there.
	KeysNeeded func() bool
	Fail       func(w http.ResponseWriter, r *http.Request, err *schema.Error)
	// TrustedProxies are the proxies that may set X-Forwarded-For.
	TrustedProxies []netip.Prefix
	// Version returns the version of the configuration in force.
	Version func() int
	// Trail records changes, sign-ins and reads of contents; nil records nothing.
	Trail Trail
	Log   *slog.Logger
}

// NewGate returns a Gate.
func NewGate(options GateOptions) *Gate {
	options.Log = logs.Named(options.Log, logs.Audit)
	if options.Roster == nil {
		options.Roster = func() *access.Roster { return nil }
	}
	return &Gate{options: options, crossSite: http.NewCrossOriginProtection(),
		origins: newOrigins(options.Origins, options.KeysNeeded)}
}

// Guard returns a handler that calls the handler of a route if the caller may.
func (g *Gate) Guard(route Route) http.HandlerFunc {
	if route.Permission == access.ByKey {
		return g.whenReady(g.keepPagesOut(route))
	}
	return func(w http.ResponseWriter, r *http.Request) {
		who, refusal := g.admit(r, &route)
		isAudited := !isSafe(r.Method) || route.Audited
		if isAudited {
			ChangeOf(w).Before = g.options.Version()
			defer g.audit(w, r, route, who)
		}
		if route.Permission != access.Anyone {
			w.Header().Set("Cache-Control", "no-store")
		}
		if refusal != nil {
			refusal(w)
			g.refused(w, r, &route, who)
			return
		}
		if isAudited {
			recording, may := g.record(w, r, &route, who)
			if !may {
				return
			}
			defer func() { recording.end(RecordOf(w).Status) }()
		}
		known, admission := admitted(r, who)
		defer admission.end(w)
		if route.Permission != access.Anyone && isSafe(r.Method) {
			// A change that has begun is made and reported in any case: the caller may have
			// changed their own token, and the new text is shown only once.
			admission.follow(w, func() func(http.ResponseWriter) {
				_, refusal := g.admit(r, &route)
				return refusal
			})
		}
		route.Handler(w, known)
		admission.finish(w)
	}
}

// keepPagesOut returns the handler of a route of the unified API. Objects that it stores
// for clients without a key are, like management, not for pages of other sites.
func (g *Gate) keepPagesOut(route Route) http.HandlerFunc {
	_, path, _ := strings.Cut(route.Pattern, " ")
	if !isStored(strings.TrimPrefix(path, "/")) {
		return route.Handler
	}
	return func(w http.ResponseWriter, r *http.Request) {
		var said say.Sentence
		switch {
		case g.origins.keysNeeded():
		case g.isForeignHost(r):
			said = say.New("call.host")
		case g.isForeignPage(r):
			said = foreignPage()
		}
		if !said.Is() {
			route.Handler(w, r)
			return
		}
		if r.ContentLength != 0 {
			w.Header().Set("Connection", "close") // the body is not read
		}
		g.options.Fail(w, r, schema.NewError(schema.CodePermissionDenied, said))
	}
}

// foreignPage is the refusal of a request that a page of another site sent.
func foreignPage() say.Sentence { return say.New("manage.foreign") }

// isForeignHost reports whether a request was sent to a gateway on loopback by a name that
// does not belong to this machine.
func (g *Gate) isForeignHost(r *http.Request) bool { return g.options.Loopback && !g.isOwnHost(r.Host) }

// isForeignPage reports whether a browser sent the request for a page of another site that
// is not allowed by its name.
func (g *Gate) isForeignPage(r *http.Request) bool { return g.isCrossSite(r) && !g.origins.names(r) }

// NotReady says why a gateway that does not know the credentials yet refuses requests.
func NotReady() say.Sentence { return say.New("manage.not_ready") }

// whenReady refuses requests until the credentials are known.
func (g *Gate) whenReady(next http.HandlerFunc) http.HandlerFunc {
	if g.options.Ready == nil {
		return next
	}
	return func(w http.ResponseWriter, r *http.Request) {
		if !g.options.Ready() {
			g.options.NotReady(w, r)
			return
		}
		next(w, r)
	}
}

type identityKey struct{}

// IdentityOf returns who sent a request, as the gate found. It is the zero value for an
// unidentified caller of a route that anyone may call.
func IdentityOf(r *http.Request) access.Identity {
	if admitted, ok := r.Context().Value(identityKey{}).(*admission); ok {
		return admitted.who
	}
	return access.Identity{}
}

// WithIdentity returns a request with a caller who need not pass the gate.
func WithIdentity(r *http.Request, who access.Identity) *http.Request {
	return r.WithContext(context.WithValue(r.Context(), identityKey{}, &admission{who: who}))
}

// admit decides whether a request may pass. If not, it returns the function that
// answers it.
func (g *Gate) admit(r *http.Request, route *Route) (access.Identity, func(http.ResponseWriter)) {
	crossSite, foreign := g.isCrossSite(r), g.isForeignPage(r)
	who, wait, err := g.identify(r, crossSite)
	isOpen := who.IsOpen
	switch {
	case route.Permission == access.Anyone:
		return who, nil
	case g.options.Ready != nil && !g.options.Ready():
		return access.Identity{}, func(w http.ResponseWriter) {
			w.Header().Set("Retry-After", "1")
			Refuse(w, http.StatusServiceUnavailable, NotReady())
		}
	case isOpen && g.options.Loopback && !g.options.AllowOpen && isForwarded(r.Header):
		return who, forbid(say.New("manage.forwarded"))
	case isOpen && g.isForeignHost(r):
		return who, forbid(say.New("manage.host"))
	case foreign:
		return who, forbid(foreignPage())
	case wait > 0:
		return who, func(w http.ResponseWriter) {
			w.Header().Set("Retry-After", strconv.FormatInt(int64((wait+time.Second-1)/time.Second), 10))
			Refuse(w, http.StatusTooManyRequests, say.New("manage.wrong_tokens"))
		}
	case errors.Is(err, sessions.ErrUnread):
		return who, func(w http.ResponseWriter) {
			w.Header().Set("Retry-After", "1")
			Refuse(w, http.StatusServiceUnavailable, say.From(err))
		}
	case err != nil:
		return who, func(w http.ResponseWriter) {
			w.Header().Set("Www-Authenticate", "Bearer")
			Refuse(w, http.StatusUnauthorized, say.From(err))
		}
	case who.Scope(route.Permission, route.Team).IsEmpty():
		return who, forbid(lacking(&who, route))
	case !who.Scope(route.Permission, route.Team).Includes(r.PathValue(tenantParameter)) && route.isOfTenant():
		return who, forbid(say.New("manage.other_tenant", "role", route.Team, "tenant",
			Shorten(r.PathValue(tenantParameter))))
	}
	return who, nil
}

// lacking says what a caller lacks for a route.
func lacking(who *access.Identity, route *Route) say.Sentence {
	switch {
	case route.Permission == access.ByMembership:
		return say.New("manage.members_only")
	case who.Role.Valid():
		return say.New("manage.permission", "role", who.Role, "permission", route.Permission)
	case who.RoleName() != "":
		return say.New("manage.team_permission", "role", who.RoleName())
	}
	return say.New("manage.no_role")
}

// identify returns who sent a request, and how long a caller who presented too many wrong
// tokens has to wait. The error says why nobody knows the caller.
func (g *Gate) identify(r *http.Request, crossSite bool) (who access.Identity, wait time.Duration, err error) {
	roster := g.options.Roster()
	if roster == nil {
		who := access.Identity{Name: access.OpenName, IsOpen: true, Role: access.Admin}
		forwarded := g.options.Loopback && isForwarded(r.Header)
		rebound := g.isForeignHost(r)
		if forwarded && !g.options.AllowOpen || rebound || crossSite && !g.origins.names(r) {
			who.Role = 0 // routes that anyone may call show no details either
		}
		// On loopback the caller could read the files as well, unless it is a page in
		// a browser, or on another machine.
		who.SeesSecrets = g.options.Loopback && !crossSite && !forwarded && !rebound
		return who, 0, nil
	}
	now := time.Now()
	who, known, presents := roster.Identify(r.Header, now)
	if known {
		return who, 0, nil
	}
	if presents {
		wait = g.options.Attempts.Wrong(ClientAddr(r, g.options.TrustedProxies), now)
	} else if session := g.options.PublicURL.session(r); session != "" && !crossSite {
		// A page of another site, or of another port of this host, has a browser
		// send the cookie too; it counts for our own pages only.
		for _, find := range g.options.Sessions {
			if who, known, err = find(session, now); known {
				return who, 0, err
			}
		}
		if who, err = roster.Session(session, now); err == nil && g.options.Kept != nil {
			who.Session = access.SessionID(session)
			err = g.options.Kept.Check(who.Session)
		}
		if err != nil {
			who = access.Identity{}
		}
		return who, 0, err
	}
	return who, wait, say.Error("manage.no_token")
}

// isCrossSite reports whether a browser sent the request for a page of another site. Other
// clients do not send the headers that tell.
func (g *Gate) isCrossSite(r *http.Request) bool {
	// The check passes every read, so it is asked about a write.
	probe := *r
	probe.Method = http.MethodPost
	return g.crossSite.Check(&probe) != nil
}

// isOwnHost reports whether the request was sent to a name of this machine, and not to a
// foreign name that resolves to it (DNS rebinding). Browsers always send a name.
func (g *Gate) isOwnHost(host string) bool {
	if host == "" {
		return true
	}
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	host = strings.ToLower(strings.TrimSuffix(strings.Trim(host, "[]"), "."))
	if addr, err := netip.ParseAddr(host); err == nil && addr.IsLoopback() {
		return true
	}
	return host == "localhost" ||
		slices.ContainsFunc(g.options.Hosts, func(own string) bool { return strings.EqualFold(own, host) })
}

func isSafe(method string) bool {
	return method == http.MethodGet || method == http.MethodHead || method == http.MethodOptions
}

func forbid(said say.Sentence) func(http.ResponseWriter) {
	return func(w http.ResponseWriter) { Refuse(w, http.StatusForbidden, said) }
}

// audit writes the audit log line of a change, or of a read that shows secrets or texts of
// people. It also writes the line of a failed attempt.
func (g *Gate) audit(w http.ResponseWriter, r *http.Request, route Route, who access.Identity) {
	call, change := RecordOf(w), ChangeOf(w)
	if change.After == 0 {
		change.After = change.Before
	}
	level, message := slog.LevelInfo, "management write"
	if isSafe(r.Method) {
		message = "management read"
	}
	if call.Status >= http.StatusBadRequest {
		level = slog.LevelWarn
	}
	attrs := []slog.Attr{
		slog.String("who", who.String()),
		slog.String("role", who.RoleName()),
		slog.String("from", ClientAddr(r, g.options.TrustedProxies).String()),
		slog.String("what", route.Pattern),
		slog.String("path", loggedPath(r)),
		slog.Int("status", call.Status),
		slog.Int("version_before", change.Before),
		slog.Int("version_after", change.After),
		slog.String("request_id", call.RequestID),
	}
	if change.Summary != "" {
		attrs = append(attrs, slog.String("change", change.Summary))
	}
	if change.DryRun {
		attrs = append(attrs, slog.Bool("dry_run", true))
	}
	g.options.Log.LogAttrs(context.WithoutCancel(r.Context()), level, message, attrs...)
}

// isForwarded reports whether a proxy forwarded the request for a client that is not on
// this machine, or that it does not identify. Every entry of X-Forwarded-For and X-Real-Ip
// and every "for" of Forwarded counts, because any of the proxies may be reachable from
// other machines. A proxy that names no client, as with Via alone, is taken for one that
// serves this machine.
func isForwarded(h http.Header) bool {
	for _, name := range [...]string{"X-Forwarded-For", "X-Real-Ip"} {
		for _, line := range h[name] {
			for entry := range strings.SplitSeq(line, ",") {
				if isElsewhere(entry) {
					return true
				}
			}
		}
	}
	for _, line := range h["Forwarded"] {
		for pair := range strings.FieldsFuncSeq(line, func(r rune) bool { return r == ',' || r == ';' }) {
			name, value, _ := strings.Cut(pair, "=")
			if strings.EqualFold(strings.TrimSpace(name), "for") &&
				isElsewhere(strings.Trim(strings.TrimSpace(value), `"`)) {
				return true
			}
		}
	}
	return false
}

// isElsewhere reports whether an entry names a client by anything but a loopback address:
// "unknown" and obfuscated names may mean any client.
func isElsewhere(entry string) bool {
	entry = strings.TrimSpace(entry)
	if entry == "" {
		return false
	}
	addr, ok := parseHop(entry)
	return !ok || !addr.IsLoopback()
}
