package gateway

import (
	"context"
	"strings"

	"github.com/patchbay-ai/patchbay/internal/access"
)

// shareCredentials stores keys and tokens with the shared configuration, where there is
// one.
func (g *Gateway) shareCredentials() {
	values := g.Control.Values()
	if values == nil {
		return
	}
	var err error
	g.patience.Wait(context.Background(), func(ctx context.Context) {
		err = values.Follow(ctx, g.Credentials.Share(values), g.Credentials.Take, g.Control.TakeHolds)
	})
	if err != nil {
		g.log.Warn("the shared keys and tokens cannot be read; those that this gateway last knew are in force",
			"known", g.Credentials.Known(), "error", err)
	}
}

// ready reports whether the gateway has read the data that it shares with others: the
// configuration and, where security is on, the credentials.
func (g *Gateway) ready() bool {
	return g.Control.Joined() && (g.Credentials.Known() || !g.Document.Security.Enabled)
}

// readiness returns ready, or nil where nothing is shared: the gate then calls nothing
// for each request.
func (g *Gateway) readiness() func() bool {
	if g.Control.Values() == nil {
		return nil
	}
	return g.ready
}

// knowsKeys reports whether the keys of callers are looked at. A demo knows them without asking
// for them.
func (g *Gateway) knowsKeys() bool { return g.Document.Security.Enabled || g.isDemo }

// keys returns the checks of callers' keys.
func (g *Gateway) keys() access.Callers {
	if !g.knowsKeys() {
		return access.Callers{}
	}
	return access.Callers{Credentials: g.Credentials, Attempts: g.attempts}
}

// warnOfMissingCredentials says how to make the first key and the first token where security is on
// and there are none. It warns where the unified API is open all the same.
func (g *Gateway) warnOfMissingCredentials() {
	if !g.Document.Security.Enabled || !g.Credentials.Known() {
		return
	}
	folder := g.Document.Server.DataDir
	addresses := OpenAddresses(g.Document)
	switch guard := g.Credentials.Guard(); {
	case guard.IsVacant():
		g.log.Warn("security is on and there is no key: /v1 refuses every request until there is one. Make it with "+
			"patchbay keys create --url URL --token TOKEN, or while the gateway is stopped with the command below; or "+
			"set security.keys. security.allow-keyless: true opens /v1 without keys",
			"command", "patchbay keys create --data-dir "+folder)
	case guard == nil && len(addresses) > 0:
		g.log.Warn("security is on and there is no key: anyone who reaches this address can use /v1, because "+
			"security.allow-keyless is set",
			"address", strings.Join(addresses, ", "))
	}
	if g.Credentials.Roster().Empty() {
		g.log.Warn("security is on and there is no management token: nobody can use the management API. Make one with "+
			"the command below while the gateway is stopped, or set security.tokens",
			"command", "patchbay tokens create admin --role ADMIN --data-dir "+folder)
	}
}

// metricsAddresses returns where the metrics are served.
func (g *Gateway) metricsAddresses() []string {
	if addresses := g.Document.Server.ManagementListen; len(addresses) > 0 {
		return addresses
	}
	return g.Document.Server.Listen
}
