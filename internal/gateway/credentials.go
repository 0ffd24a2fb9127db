package gateway

import "context"

// shareCredentials makes keys and tokens those of the shared configuration,
// where there is one.
func (g *Gateway) shareCredentials() {
	values := g.Control.Values()
	if values == nil {
		return
	}
	if err := values.Follow(context.Background(), g.credentials.Share(values), g.credentials.Take, g.Control.TakeHolds); err != nil {
		g.log.Warn("the shared keys and tokens cannot be read; those that this gateway last knew are in force", "known", g.credentials.Known(), "error", err)
	}
}

// renewCredentials brings the stored credentials up to date with the master key. What
// cannot be written now is tried at the next start.
func (g *Gateway) renewCredentials() {
	if err := g.credentials.Renew(context.Background()); err != nil {
		g.log.Warn("the keys of sessions and the signatures of credentials are as before; the next start tries again", "error", err)
	}
}

// ready tells whether the gateway has read what it shares with others: the configuration
// and, where security is on, the credentials.
func (g *Gateway) ready() bool {
	return g.Control.Joined() && (g.credentials.Known() || !g.Document.Security.Enabled)
}

// readiness returns ready, or nil where nothing is shared, so that the gate does not call
// it for each request.
func (g *Gateway) readiness() func() bool {
	if g.Control.Values() == nil {
		return nil
	}
	return g.ready
}
