package v1

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/patchbay-ai/patchbay/internal/request/schema"
	"github.com/patchbay-ai/patchbay/internal/route/proxy"
	"github.com/patchbay-ai/patchbay/internal/see/calls"
	"github.com/patchbay-ai/patchbay/internal/see/logs"
	"github.com/patchbay-ai/patchbay/internal/serve/web"
)

// do gives the proxy a request. If requests of its service type may share a call, the proxy runs on
// a goroutine of its own: the request may end while others need the call that it made.
func (a *API) do(x *exchange) error {
	ctx := a.enter(x)
	if !a.proxy.Shares(x.request.Service) {
		return a.proxy.Do(ctx, &x.way, x)
	}
	return a.lead(ctx, x)
}

// Wait waits for the calls whose first requests have ended. It is called after all requests.
func (a *API) Wait() { a.leading.Wait() }

// leader is the client of a request that may end before its call. What is sent to it afterwards is
// dropped.
type leader struct {
	*exchange
	mu sync.Mutex
	// isOver means that the proxy is done, and isGone that the request ended before.
	isOver, isGone bool
	hasHead        bool
}

// departure is the end of a request whose call continues, with a copy of its record.
type departure struct {
	cause  error
	record *calls.Record
}

func (a *API) lead(ctx context.Context, x *exchange) error {
	client := &leader{exchange: x}
	var err error
	var caught *logs.Panic
	over, left := make(chan struct{}), make(chan departure, 1)
	x.way.Leave = func(cause error, record *calls.Record) { left <- departure{cause, record} }
	made := x.call
	a.leading.Go(func() {
		defer close(over)
		caught = logs.Try(func() { err = a.proxy.Do(ctx, &x.way, client) })
		if client.ends(&client.isOver, &client.isGone) {
			return
		}
		caught.Report(a.options.Log, "a call without its first request")
		if made.Series != nil { // its record is not counted
			a.options.Recorder.Registry().Charge(made.Series, int64(made.Cost-made.Charged))
		}
	})
	select {
	case <-over:
	case end := <-left:
		if client.ends(&client.isGone, &client.isOver) {
			return a.depart(x, client.hasHead, end)
		}
		<-over
	}
	caught.Raise()
	return err
}

// ends sets one of the two ends of a leader, unless the other one came first.
func (l *leader) ends(one, other *bool) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	*one = !*other
	return *one
}

// depart ends a request whose call continues for others. From now on the exchange, but for its
// client's side, belongs to that.
func (a *API) depart(x *exchange, hasHead bool, end departure) error {
	x.hasDeparted = true
	record := end.record
	web.ReplaceRecord(x.w, record)
	x.call = record
	serving, attempts := x.running.Served()
	record.Model = serving.Model
	for _, i := range a.current.Load().Instances() {
		if attempts > 0 && i.ID == serving.Instance {
			record.Begin(i.ID, i.Kind.Name, time.Now())
			record.Attempts, record.Series = attempts, i.Series
		}
	}
	var known *schema.Error
	if record.Stopped = errors.As(end.cause, &known); record.Stopped && record.Attempts > 0 {
		record.Fail(known.Code, "", known.Said)
	}
	if !hasHead || x.isNoticed {
		return end.cause
	}
	record.Gone, record.Code = known == nil, schema.CodeCancelled
	if known != nil {
		record.Tell(known)
	}
	return proxy.ErrBrokenOff
}

// with calls use unless the request has ended.
func (l *leader) with(use func() error) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.isGone {
		return context.Canceled
	}
	return use()
}

// Route implements proxy.Sink.
func (l *leader) Route(route proxy.Route) {
	_ = l.with(func() error {
		l.exchange.Route(route)
		return nil
	})
}

// Head implements proxy.Sink.
func (l *leader) Head(head proxy.Head) {
	_ = l.with(func() error {
		l.exchange.Head(head)
		l.hasHead, l.isNoticed = true, head.Events
		return nil
	})
}

// Write implements proxy.Sink.
func (l *leader) Write(p []byte) (n int, err error) {
	err = l.with(func() error {
		n, err = l.exchange.Write(p)
		return err
	})
	return n, err
}

// Send implements proxy.Sink.
func (l *leader) Send(p []byte) error { return l.with(func() error { return l.exchange.Send(p) }) }

// Notice implements proxy.Noticer.
func (l *leader) Notice(comment []byte) error {
	return l.with(func() error { return l.exchange.Notice(comment) })
}
