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
	// loopHeader names the gateways that a request has passed (RFC 8586). Via, the
	// older field for that, is dropped by some proxies and makes some servers
	// behave differently.
	loopHeader = "CDN-Loop"
	// hopPrefix begins the name of every gateway in it.
	hopPrefix = "patchbay-"
	// maxHops is how many gateways a request may pass.
	maxHops = 8
	// maxHopsText bounds what is passed on of the field.
	maxHopsText = 4 << 10
)

// newHop returns the name of this gateway, which is another one in each process.
func newHop() string { return hopPrefix + rand.Text() }

// checkHops refuses a request that has been here before, or that has passed more
// gateways than anybody puts in a row: an instance leads back to where the request
// came from, and it would go round for ever.
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

// loopDetected is the same error at every gateway of a loop, up to the caller.
func loopDetected(message string) *schema.Error {
	return &schema.Error{Message: message, Type: schema.TypeAPI, Code: schema.CodeLoopDetected, NoRetry: true}
}

// isLoop tells whether a backend is a gateway that found a loop.
func isLoop(f *dialect.Failure) bool {
	return f.Status == http.StatusLoopDetected && f.Code == schema.CodeLoopDetected
}

// addHops adds this gateway to those that the request has passed. Instances
// cannot take that out.
func (a *attempt) addHops() {
	value := a.proxy.hop
	if a.caller.Hops != "" {
		value = a.caller.Hops + ", " + value
	}
	for i := range a.out.Header {
		if strings.EqualFold(a.out.Header[i].Name, loopHeader) {
			a.out.Header[i].Value = value
			return
		}
	}
	a.out.Header = append(a.out.Header, wire.Header{Name: loopHeader, Value: value})
}
