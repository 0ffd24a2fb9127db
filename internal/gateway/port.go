package gateway

import (
	"context"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/patchbay-ai/patchbay/internal/access"
	"github.com/patchbay-ai/patchbay/internal/access/listen"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
	"github.com/patchbay-ai/patchbay/internal/serve/front"
	"github.com/patchbay-ai/patchbay/internal/serve/web"
)

// Port is an address with a listener, and the servers of its connections.
type Port struct {
	Address  string // as it was configured
	Listener net.Listener
	Options  front.Options // of the server of HTTP/1.1, until it is started
	serves   portion
	server   *front.Server

	secure  *listen.Secure // nil without encryption
	http2   *http.Server   // serves the connections with HTTP/2, which need encryption
	silent  web.Silent     // connections without a byte so far
	serving sync.WaitGroup // runs http2
}

// portion is the part of the routes that a port serves.
type portion int

const (
	everything portion = iota
	onlyUnified
	onlyManagement // all but the unified API
	onlyOllama     // the unified API, with Ollama's at its root
)

// of returns the part of the routes.
func (p portion) of(routes []web.Route) []web.Route {
	if p == everything {
		return routes
	}
	var own []web.Route
	for _, route := range routes {
		isUnified := route.Permission == access.ByKey
		if p != onlyManagement && route.Apart != nil {
			isUnified, route.Handler = true, route.Apart
		}
		if isUnified != (p == onlyManagement) {
			own = append(own, route)
		}
	}
	return own
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
		p.secure = listen.NewSecure(listener, listen.SecureOptions{Certificates: certificates, NoTLS: noTLS(),
			Log: log})
		p.Listener = p.secure
	}
	return p, nil
}

// noTLS is the reply to a request without encryption on a port that requires it.
func noTLS() []byte {
	return web.RefusalOf("400 Bad Request", schema.CodedError(schema.CodeInvalidHTTP,
		"call.tls"))
}

// headTime is how long the head of a request may take; a slower one is an attack or a
// dead connection. idleTime is how long a connection may wait for the next request.
const headTime, idleTime = 15 * time.Second, 120 * time.Second

// prepare sets up the servers of the port. They themselves bound how long a client may
// send no body or read no reply: a bound for the whole of a request would cut long
// streams.
func (p *Port) prepare(base context.Context, handler http.Handler, log *slog.Logger) {
	p.Options = front.Options{
		Handler: handler, HeadTime: headTime, IdleTime: idleTime, MaxHead: web.MaxHeaderBytes, Refuse: web.RefusalTo,
		Base: base, Log: log,
	}
	p.http2 = &http.Server{
		Handler: handler, ReadHeaderTimeout: headTime, IdleTimeout: idleTime, MaxHeaderBytes: web.MaxHeaderBytes,
		ErrorLog:    slog.NewLogLogger(log.Handler(), slog.LevelDebug),
		BaseContext: func(net.Listener) context.Context { return base },
		ConnState:   p.silent.ConnState,
		HTTP2: &http.HTTP2Config{
			MaxConcurrentStreams: 250,
			// A client that is gone without a word is noticed even while nothing is sent
			// to it. A client that reads nothing holds no memory for long.
			SendPingTimeout:  30 * time.Second,
			PingTimeout:      15 * time.Second,
			WriteByteTimeout: 30 * time.Second,
		},
	}
}

// start starts the goroutines that serve the connections of the port, beside serve.
func (p *Port) start(log *slog.Logger) {
	p.server = front.New(p.Options)
	p.server.Start(p.Listener)
	if p.secure != nil {
		p.serving.Go(func() {
			// Serve ends with the listener or the server. Their errors are reported
			// elsewhere.
			err := p.http2.Serve(p.secure.HTTP2())
			log.Debug("HTTP/2 is served no more", "address", p.Address, "error", err)
		})
	}
}

// serve serves the connections of the port until its listener fails or is closed,
// and returns why.
func (p *Port) serve() error { return p.server.Serve() }

// shutdown lets running requests end until the context ends, and then ends them.
func (p *Port) shutdown(ctx context.Context) {
	_ = p.Listener.Close()
	p.silent.Close()
	if p.http2.Shutdown(ctx) == nil {
		_ = p.server.Shutdown(ctx)
	}
	_ = p.http2.Close()
	p.server.Close()
	p.serving.Wait()
}
