package gateway

import (
	"context"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/patchbay-ai/patchbay/internal/access"
	"github.com/patchbay-ai/patchbay/internal/front"
	"github.com/patchbay-ai/patchbay/internal/listen"
	"github.com/patchbay-ai/patchbay/internal/schema"
	"github.com/patchbay-ai/patchbay/internal/web"
	v1 "github.com/patchbay-ai/patchbay/internal/web/v1"
)

// Port is an address on which the gateway listens, and the servers of its
// connections.
type Port struct {
	Address  string // as it was configured
	Listener net.Listener
	Server   *http.Server // serves what the front does not
	silent   *web.Silent  // what the server has that nothing has come on
	serves   portion
	front    *front.Server
	secure   *listen.Secure // nil without encryption
	http2    sync.WaitGroup // serves the connections with HTTP/2
}

// portion is the part of the routes that a port serves.
type portion int

const (
	everything portion = iota
	onlyUnified
	onlyManagement // all but the unified API
)

// of returns the part of the routes.
func (p portion) of(routes []web.Route) []web.Route {
	if p == everything {
		return routes
	}
	return slices.DeleteFunc(slices.Clone(routes), func(route web.Route) bool {
		isUnified := route.Permission == access.ByKey || route.Pattern == v1.ErrorPagePattern
		return isUnified != (p == onlyUnified)
	})
}

// openPort begins to listen on an address, with encryption where there are
// certificates. A socket in the file system needs none.
func openPort(address string, certificates *listen.Certificates, log *slog.Logger) (*Port, error) {
	listener, err := listen.Open(context.Background(), address)
	if err != nil {
		return nil, err
	}
	p := &Port{Address: address, Listener: listener}
	if _, isSocket := listen.SocketPath(address); certificates != nil && !isSocket {
		p.secure = listen.NewSecure(listener, listen.SecureOptions{Certificates: certificates, NoTLS: noTLS(), Log: log})
		p.Listener = p.secure
	}
	return p, nil
}

// noTLS is the reply to a request without encryption where there must be one.
func noTLS() []byte {
	return web.RefusalOf("400 Bad Request", schema.NewError(schema.CodeInvalidHTTP, "This address speaks TLS only; use https:// in place of http://."))
}

// newServer returns an HTTP server, with the limits that are off by default.
func (g *Gateway) newServer(handler http.Handler, silent *web.Silent) *http.Server {
	return &http.Server{
		Handler: handler,
		// A head that takes longer is an attack or a dead connection.
		ReadHeaderTimeout: 15 * time.Second,
		// No ReadTimeout and no WriteTimeout: both count from the start of a
		// request and would cut long streams. web.Conn waits for bodies and for
		// readers, and not for ever.
		IdleTimeout:    120 * time.Second,
		MaxHeaderBytes: web.MaxHeaderBytes,
		ErrorLog:       slog.NewLogLogger(g.log.Handler(), slog.LevelDebug),
		BaseContext:    func(net.Listener) context.Context { return g.base },
		ConnContext:    web.ConnContext,
		ConnState: func(c net.Conn, state http.ConnState) {
			web.ConnState(c, state)
			silent.ConnState(c, state)
		},
		HTTP2: &http.HTTP2Config{
			MaxConcurrentStreams: 250,
			// A client that is gone without a word is noticed even while nothing is
			// sent to it, and one that reads nothing holds no memory for long.
			SendPingTimeout:  30 * time.Second,
			PingTimeout:      15 * time.Second,
			WriteByteTimeout: 30 * time.Second,
		},
	}
}

// start starts what serves the connections of the port, beside serve.
func (p *Port) start(log *slog.Logger) {
	p.front.Start(p.Listener)
	if p.secure != nil {
		p.http2.Go(func() {
			// It ends with the listener or the server, whose errors are reported elsewhere.
			err := p.Server.Serve(p.secure.HTTP2())
			log.Debug("HTTP/2 is served no more", "address", p.Address, "error", err)
		})
	}
}

// serve serves the connections of the port until its listener fails or is closed,
// and returns why.
func (p *Port) serve() error { return p.front.Serve() }

// shutdown lets running requests end until the context ends, and then ends them.
func (p *Port) shutdown(ctx context.Context) {
	_ = p.Listener.Close()
	p.silent.Close()
	_ = p.front.Shutdown(ctx)
	p.front.Close()
	p.http2.Wait()
}
