package proxy

import (
	"context"
	"net"

	"github.com/patchbay-ai/patchbay/internal/dialect/wire"
	"github.com/patchbay-ai/patchbay/internal/hosts/backend"
	"github.com/patchbay-ai/patchbay/internal/hosts/breaker"
	"github.com/patchbay-ai/patchbay/internal/hosts/transport"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
)

// Link is a connection to an instance that carries more than one answer. The zero value opens
// none: it only brings the model into memory.
type Link struct {
	// Open opens it: it asks the instance with the call, over a connection of its own. The
	// caller of Open closes the connection. An answer that refuses is a reply.StatusError.
	Open func(ctx context.Context, to *backend.Instance, over net.Conn, call *wire.Call) error
	// Serve serves it until it ends, and returns an error if the instance broke it off.
	Serve func(to *backend.Instance) error
}

// Connect finds an instance for a link as Do does for a request, and holds it while the link
// is served. No limit counts the request for it: each request on the link is counted by
// itself. An error says that no link was opened; it is like the errors of Do.
func (p *Proxy) Connect(ctx context.Context, req *Request, link *Link) error {
	r := p.begin(req)
	panicked := true
	defer func() { r.end(panicked) }()
	err := p.checkHops(r.Caller.Hops)
	if err == nil {
		err = r.readHeaders()
	}
	if err == nil {
		err = r.RefuseUnknown()
	}
	if err == nil {
		err = r.serveLink(ctx, link)
	}
	if err != nil {
		r.noteEnd(err)
		r.countShed()
	}
	panicked = false
	return err
}

// Load loads the model of a request as an ordinary request would, and returns when it is in
// memory. It sends nothing else, and no limit counts it. Its errors are like those of Do.
func (p *Proxy) Load(ctx context.Context, req *Request) error { return p.Connect(ctx, req, &Link{}) }

// serveLink opens the link in the way of an ordinary request, and serves it. The instance and
// its model are held until it ends.
func (r *run) serveLink(ctx context.Context, link *Link) error {
	r.link = link
	if err := r.route(ctx); err != nil || r.onlyLoads() {
		return err
	}
	outcome := breaker.Success
	if err := link.Serve(r.attempt.instance); err != nil {
		outcome = r.noteBroken(err).Outcome
	}
	r.release(outcome)
	return nil
}

// onlyLoads reports whether nothing is asked: the model is to be in memory.
func (r *request) onlyLoads() bool { return r.link != nil && r.link.Open == nil }

// openLink opens the link at the instance that was acquired.
func (a *attempt) openLink(ctx context.Context) error {
	limits := &a.instance.Timeouts
	over, err := a.proxy.client.Dial(ctx, &a.instance.Origin, limits.Connect.Std())
	if err != nil {
		return err
	}
	bounded, cancel := context.WithTimeoutCause(ctx, limits.FirstByte.Std(), errTotal)
	defer cancel()
	if err = a.link.Open(bounded, a.instance, over, &a.out); err != nil && ctx.Err() == nil && bounded.Err() != nil {
		return transport.ErrTimeout
	}
	return err
}

// ReadLinked returns a request for a link of a model, or for an answer on it. The body is the
// request as JSON.
func ReadLinked(door schema.Door, model string, body []byte) (*schema.Request, error) {
	req := &schema.Request{PathModel: model}
	err := req.ParseBody(door, body, linkFields)
	return req, err
}

var linkFields = schema.FieldsOf(struct {
	Model string `json:"model"`
}{})
