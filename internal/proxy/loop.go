package proxy

import (
	"crypto/rand"
	"fmt"
	"net/http"
	"strings"

	"github.com/patchbay-ai/patchbay/internal/dialect"
	"github.com/patchbay-ai/patchbay/internal/schema"
	"github.com/patchbay-ai/patchbay/internal/wire"
)

const (
	// loopHeader lists the gateways that a request has passed (RFC 8586). The older
	// header for that, Via, is dropped by some proxies and makes some servers behave
	// differently.
	loopHeader = "CDN-Loop"
	// hopPrefix begins the name of every gateway in the header.
	hopPrefix = "patchbay-"
	// maxHops is how many gateways a request may pass.
	maxHops = 8
	// maxHopsText is how long the header may be.
	maxHopsText = 4 << 10
)

// newHop returns a name for this gateway, which is different in each process.
func newHop() string { return hopPrefix + rand.Text() }

// checkHops refuses a request that has passed this gateway before, or too many
// gateways: some instance leads back to a gateway, and the request would go round
// for ever.
func (p *Proxy) checkHops(passed string) error {
	if passed == "" {
		return nil
	}
	hops := 1 // this one
	for entry := range strings.SplitSeq(passed, ",") {
		name, _, _ := strings.Cut(entry, ";")
		switch name = strings.TrimSpace(name); {
		case name == p.hop:
			return loopDetected("The request came back to a gateway that it had passed: the address of an instance leads to the gateway itself.")
		case strings.HasPrefix(name, hopPrefix):
			hops++
		}
	}
	if hops > maxHops || len(passed) > maxHopsText {
		return loopDetected(fmt.Sprintf("The request passed more than %d gateways: the addresses of their instances lead to each other.", maxHops))
	}
	return nil
}

// loopDetected returns the error for a loop. The other gateways of the loop answer
// with the same code; see isLoop.
func loopDetected(message string) *schema.Error {
	return &schema.Error{Message: message, Type: schema.TypeAPI, Code: schema.CodeLoopDetected, NoRetry: true}
}

// isLoop tells whether a backend is a gateway that found a loop.
func isLoop(f *dialect.Failure) bool {
	return f.Status == http.StatusLoopDetected && f.Code == schema.CodeLoopDetected
}

// addHops adds this gateway to the loop header. The headers that are configured for
// an instance cannot replace it.
func (a *attempt) addHops() {
	value := a.proxy.hop
	if a.Caller.Hops != "" {
		value = a.Caller.Hops + ", " + value
	}
	for i := range a.out.Header {
		if strings.EqualFold(a.out.Header[i].Name, loopHeader) {
			a.out.Header[i].Value = value
			return
		}
	}
	a.out.Header = append(a.out.Header, wire.Header{Name: loopHeader, Value: value})
}
