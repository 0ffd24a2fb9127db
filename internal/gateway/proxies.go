package gateway

import "github.com/patchbay-ai/patchbay/internal/hosts/transport"

// nameProxies logs the proxies of the environment on the way to backends, because nothing
// else shows them.
func (g *Gateway) nameProxies(proxies transport.Proxies) {
	https, http, exempt, err := proxies.Named()
	if err != nil {
		g.log.Warn("a proxy of the environment cannot be used; backends are reached directly", "error", err)
	}
	if https != "" || http != "" {
		g.log.Info("backends are reached through the proxies of the environment; proxy: none of an instance leaves "+
			"it out",
			"https_proxy", https, "http_proxy", http, "no_proxy", exempt)
	}
}
