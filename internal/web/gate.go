package web

import (
	"context"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/patchbay-ai/patchbay/internal/access"
	"github.com/patchbay-ai/patchbay/internal/logs"
)

// Gate stands before the routes that are not the unified API: it knows who
// asks, refuses who may not, and writes down who changed what.
type Gate struct {
	options   GateOptions
	crossSite *http.CrossOriginProtection
}

// GateOptions are the settings of a Gate.
type GateOptions struct {
	// Roster returns who knows the management tokens now; nil, or a nil roster,
	// means that none are needed.
	Roster func() *access.Roster
	// Attempts slows down who presents wrong tokens; nil slows down nobody.
	Attempts *access.Attempts
	// Ready tells whether it is known who may be let in; nil means that it is.
	// Until then whatever not everybody may ask for is refused, and NotReady
	// answers callers of the unified API.
	Ready    func() bool
	NotReady http.HandlerFunc
	// AllowOpen lets requests pass that a proxy forwarded to a gateway that is
	// open because it listens on loopback.
	AllowOpen bool
	// Loopback says that only this machine can reach the gateway.
	Loopback bool
	// Hosts are the names by which an open gateway on loopback may be managed,
	// beside localhost and the addresses of loopback.
	Hosts []string
	// TrustedProxies may name the client's address.
	TrustedProxies []netip.Prefix
	// Version returns the version of the configuration in force.
	Version func() int
	Log     *slog.Logger
}

// NewGate returns a Gate.
func NewGate(options GateOptions) *Gate {
	options.Log = logs.Named(options.Log, logs.Audit)
	if options.Roster == nil {
		options.Roster = func() *access.Roster { return nil }
	}
	return &Gate{options: options, crossSite: http.NewCrossOriginProtection()}
}

// Guard returns the handler of a route behind the gate.
func (g *Gate) Guard(route Route) http.HandlerFunc {
	if route.Permission == access.ByKey {
		return g.whenReady(route.Handler)
	}
	return func(w http.ResponseWriter, r *http.Request) {
		who, refusal := g.admit(r, route.Permission)
		if refusal == nil {
			r = r.WithContext(context.WithValue(r.Context(), identityKey{}, who))
		}
		if !isSafe(r.Method) {
			ChangeOf(w).Before = g.options.Version()
			defer g.audit(w, r, route, who)
		}
		if route.Permission != access.Anyone {
			w.Header().Set("Cache-Control", "no-store")
		}
		if refusal != nil {
			refusal(w)
			return
		}
		route.Handler(w, r)
	}
}

// NotReadyMessage says why a gateway refuses all requests.
const NotReadyMessage = "This gateway has not read the shared configuration yet and does not know whom to let in; it serves as soon as the database can be reached."

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

// IdentityOf returns who sends a request. It is the zero value for callers of
// open routes who did not say.
func IdentityOf(r *http.Request) access.Identity {
	who, _ := r.Context().Value(identityKey{}).(access.Identity)
	return who
}

// admit decides whether a request may pass, and returns how it is refused if
// not.
func (g *Gate) admit(r *http.Request, permission access.Permission) (access.Identity, func(http.ResponseWriter)) {
	foreign := g.isCrossSite(r)
	who, known, wait := g.identify(r, foreign)
	isOpen := who.Name == openName
	switch {
	case permission == access.Anyone:
		return who, nil
	case g.options.Ready != nil && !g.options.Ready():
		return access.Identity{}, func(w http.ResponseWriter) {
			w.Header().Set("Retry-After", "1")
			Refuse(w, http.StatusServiceUnavailable, NotReadyMessage)
		}
	case isOpen && g.options.Loopback && !g.options.AllowOpen && isForwarded(r.Header):
		return who, forbid("A proxy forwarded this request for a client on another machine, and management is open to this machine only: " +
			"set security.enabled: true with management tokens, or accept the risk with security.allow-open: true.")
	case isOpen && g.options.Loopback && !g.isOwnHost(r.Host):
		return who, forbid("This host name is not allowed for the management API; allow it with security.allowed-hosts.")
	case foreign && !isSafe(r.Method):
		return who, forbid("Changes that a page of another site asks for are refused.")
	case wait > 0:
		return who, func(w http.ResponseWriter) {
			w.Header().Set("Retry-After", strconv.FormatInt(int64((wait+time.Second-1)/time.Second), 10))
			Refuse(w, http.StatusTooManyRequests, "Too many wrong management tokens came from this address; a right one is accepted at once.")
		}
	case !known:
		return who, func(w http.ResponseWriter) {
			w.Header().Set("Www-Authenticate", "Bearer")
			Refuse(w, http.StatusUnauthorized, "A management token is required, as 'Authorization: Bearer <token>'.")
		}
	case !who.Role.Holds(permission):
		return who, forbid("The role " + who.Role.String() + " does not have the permission " + string(permission) + ".")
	}
	return who, nil
}

// openName is the name of callers where no tokens are asked for.
const openName = "open"

// identify returns who sends a request. A caller who presented too many wrong
// tokens has to wait.
func (g *Gate) identify(r *http.Request, foreign bool) (who access.Identity, known bool, wait time.Duration) {
	roster := g.options.Roster()
	if roster == nil {
		who := access.Identity{Name: openName, Role: access.Admin}
		forwarded := g.options.Loopback && isForwarded(r.Header)
		if forwarded && !g.options.AllowOpen {
			who.Role = 0 // also where everybody may ask: no details for other machines
		}
		// On loopback whoever asks could read the files as well, unless it is a
		// page that somebody's browser happens to show, or another machine.
		who.SeesSecrets = g.options.Loopback && !foreign && !forwarded && g.isOwnHost(r.Host)
		return who, true, 0
	}
	now := time.Now()
	who, known, presents := roster.Identify(r.Header, now)
	if !known && presents {
		wait = g.options.Attempts.Wrong(ClientAddr(r, g.options.TrustedProxies), now)
	}
	return who, known, wait
}

// isCrossSite tells whether a browser sends the request for a page of another
// site. What is no browser says nothing of the kind.
func (g *Gate) isCrossSite(r *http.Request) bool {
	// Reads are harmless in themselves and pass the check, so it is asked about a write.
	probe := *r
	probe.Method = http.MethodPost
	return g.crossSite.Check(&probe) != nil
}

// isOwnHost tells whether the request was sent to a name of this machine, and
// not to one that somebody made lead here. Who sends no name is no browser.
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
	return host == "localhost" || slices.ContainsFunc(g.options.Hosts, func(own string) bool { return strings.EqualFold(own, host) })
}

func isSafe(method string) bool {
	return method == http.MethodGet || method == http.MethodHead || method == http.MethodOptions
}

func forbid(message string) func(http.ResponseWriter) {
	return func(w http.ResponseWriter) { Refuse(w, http.StatusForbidden, message) }
}

// audit writes down a change, or the attempt at one.
func (g *Gate) audit(w http.ResponseWriter, r *http.Request, route Route, who access.Identity) {
	call, change := CallOf(w), ChangeOf(w)
	if change.After == 0 {
		change.After = change.Before
	}
	level := slog.LevelInfo
	if call.Status >= http.StatusBadRequest {
		level = slog.LevelWarn
	}
	attrs := []slog.Attr{
		slog.String("who", who.Name),
		slog.String("role", who.Role.String()),
		slog.String("from", ClientAddr(r, g.options.TrustedProxies).String()),
		slog.String("what", route.Pattern),
		slog.String("path", r.URL.Path),
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
	g.options.Log.LogAttrs(context.WithoutCancel(r.Context()), level, "management write", attrs...)
}
