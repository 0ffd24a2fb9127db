package web

import (
	"context"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"

	"github.com/patchbay-ai/patchbay/internal/access"
)

// Route is one thing that the gateway answers: its pattern, such as
// "GET /api/models", what a caller must be permitted to, and who answers.
type Route struct {
	Pattern    string
	Permission access.Permission
	Handler    http.HandlerFunc
}

// Gate stands before the routes that are not the unified API: it knows who
// asks, refuses who may not, and writes down who changed what.
type Gate struct {
	options   GateOptions
	crossSite *http.CrossOriginProtection
}

// GateOptions are the settings of a Gate.
type GateOptions struct {
	// Roster knows the management tokens; nil means that none are needed.
	Roster *access.Roster
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
	options.Log = options.Log.With("logger", "audit")
	return &Gate{options: options, crossSite: http.NewCrossOriginProtection()}
}

// Guard returns the handler of a route behind the gate.
func (g *Gate) Guard(route Route) http.HandlerFunc {
	if route.Permission == access.ByKey {
		return route.Handler
	}
	return func(w http.ResponseWriter, r *http.Request) {
		who, refusal := g.admit(r, route.Permission)
		if refusal == nil {
			r = r.WithContext(context.WithValue(r.Context(), identityKey{}, who))
		}
		if !isSafe(r.Method) {
			RecordOf(w).Before = g.options.Version()
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
	who, known := g.identify(r, foreign)
	switch {
	case permission == access.Anyone:
		return who, nil
	case g.options.Roster == nil && g.options.Loopback && !g.isOwnHost(r.Host):
		return who, refuseWith(http.StatusForbidden, "This host name is not allowed for the management API; allow it with security.allowed-hosts.")
	case foreign && !isSafe(r.Method):
		return who, refuseWith(http.StatusForbidden, "Changes that a page of another site asks for are refused.")
	case !known:
		return who, func(w http.ResponseWriter) {
			w.Header().Set("Www-Authenticate", "Bearer")
			Refuse(w, http.StatusUnauthorized, "A management token is required, as 'Authorization: Bearer <token>'.")
		}
	case !who.Role.Holds(permission):
		return who, refuseWith(http.StatusForbidden, "The role "+who.Role.String()+" does not have the permission "+string(permission)+".")
	}
	return who, nil
}

func (g *Gate) identify(r *http.Request, foreign bool) (access.Identity, bool) {
	if g.options.Roster == nil {
		// On loopback whoever asks could read the files as well, unless it is a
		// page that somebody's browser happens to show.
		return access.Identity{Name: "open", Role: access.Admin, SeesSecrets: g.options.Loopback && !foreign && g.isOwnHost(r.Host)}, true
	}
	return g.options.Roster.Identify(r.Header)
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

func refuseWith(status int, message string) func(http.ResponseWriter) {
	return func(w http.ResponseWriter) { Refuse(w, status, message) }
}

// audit writes down a change, or the attempt at one.
func (g *Gate) audit(w http.ResponseWriter, r *http.Request, route Route, who access.Identity) {
	record := RecordOf(w)
	if record.After == 0 {
		record.After = record.Before
	}
	level := slog.LevelInfo
	if record.Status >= http.StatusBadRequest {
		level = slog.LevelWarn
	}
	attrs := []slog.Attr{
		slog.String("who", who.Name),
		slog.String("role", who.Role.String()),
		slog.String("from", ClientAddr(r, g.options.TrustedProxies).String()),
		slog.String("what", route.Pattern),
		slog.String("path", r.URL.Path),
		slog.Int("status", record.Status),
		slog.Int("version_before", record.Before),
		slog.Int("version_after", record.After),
		slog.String("request_id", record.RequestID),
	}
	if record.Change != "" {
		attrs = append(attrs, slog.String("change", record.Change))
	}
	if record.DryRun {
		attrs = append(attrs, slog.Bool("dry_run", true))
	}
	g.options.Log.LogAttrs(context.WithoutCancel(r.Context()), level, "management write", attrs...)
}
