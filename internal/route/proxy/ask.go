package proxy

import (
	"context"
	"errors"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/patchbay-ai/patchbay/internal/dialect/wire"
	"github.com/patchbay-ai/patchbay/internal/hosts/backend"
	"github.com/patchbay-ai/patchbay/internal/hosts/transport"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
	"github.com/patchbay-ai/patchbay/internal/route/reply"
)

// askTime bounds a question to an instance.
const askTime = 30 * time.Second

// Question is a call that asks for something small that an instance keeps. It is neither
// balanced nor counted, and limited only by the Visit within which it is asked.
type Question struct {
	Instance string // the id of the instance
	Door     schema.Door
	Method   string
	// Path is added to the path of the door at the backend, and Query to its query.
	Path, Query string
	// Client is the address of the caller, and Header holds its headers.
	Client netip.Addr
	Header http.Header
}

// Ask puts a question to an instance that speaks the dialect of a door itself, and calls
// use with the body of the answer. Its memory counts as memory for bodies until use
// returns. found is false if the instance is gone or does not have the object. The error
// is a *schema.Error or the cause with which ctx ended.
func (p *Proxy) Ask(ctx context.Context, q Question, use func(body []byte)) (found bool, err error) {
	var instance *backend.Instance
	for _, i := range p.current.Load().Instances() {
		if i.ID == q.Instance && i.Service == q.Door.Service() {
			instance = i
		}
	}
	if instance == nil || !instance.Settings.Enabled {
		return false, nil
	}
	target := instance.Target.Native(q.Door)
	if target == nil {
		return false, nil
	}
	ctx, cancel := context.WithTimeoutCause(ctx, askTime, errTotal)
	defer cancel()
	call := wire.Call{Method: q.Method, Path: extend(target.Path, q.Path, q.Query), Header: slices.Clone(target.Header)}
	classifier := reply.Classifier{Instance: instance, Request: &schema.Request{Service: q.Door.Service()}}
	if err := authorize(ctx, instance, q.Header, &call); err != nil {
		return false, classifier.Classify(err, false).Err
	}
	response, err := p.client.Send(ctx, &instance.Origin, &call, transport.Timeouts{
		Connect: instance.Timeouts.Connect.Std(), FirstByte: askTime, Idle: instance.Timeouts.Idle.Std(),
	})
	if err == nil {
		defer func() { _ = response.Close() }()
		answer := reply.Reply{Memory: p.bodies.Lease("", q.Client)}
		defer answer.Memory.Close()
		if response.Status == http.StatusNotFound || response.Status == http.StatusGone {
			return false, nil
		}
		var body []byte
		if body, err = answer.ReadUnchecked(response); err == nil {
			use(body)
			return true, nil
		}
	}
	if cause := context.Cause(ctx); cause != nil && !errors.Is(cause, errTotal) {
		return false, cause
	}
	return false, classifier.Classify(err, false).Err
}

// extend adds to a path and to its query.
func extend(path, more, query string) string {
	path, own, _ := strings.Cut(path, "?")
	path += more
	switch {
	case own == "" && query == "":
		return path
	case own == "" || query == "":
		return path + "?" + own + query
	}
	return path + "?" + own + "&" + query
}
