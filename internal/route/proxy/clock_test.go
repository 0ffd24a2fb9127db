package proxy

import (
	"context"
	"fmt"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/patchbay-ai/patchbay/internal/access"
	"github.com/patchbay-ai/patchbay/internal/config"
	"github.com/patchbay-ai/patchbay/internal/hosts/backend"
	"github.com/patchbay-ai/patchbay/internal/hosts/fleet"
	"github.com/patchbay-ai/patchbay/internal/hosts/transport"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
	"github.com/patchbay-ai/patchbay/internal/route/routing"
	"github.com/patchbay-ai/patchbay/internal/see/calls"
	"github.com/patchbay-ai/patchbay/internal/testing/simulator"
	"github.com/patchbay-ai/patchbay/internal/testing/simulator/engine"
)

// clockwork is a proxy in front of simulated engines, all on the fake clock of a bubble:
// their network is in memory.
type clockwork struct {
	*Proxy
	t       testing.TB
	service schema.ServiceType
	engines []*simulator.Backend
}

// newClockwork returns a proxy whose service type has the model m at one instance for each
// engine. Edit changes the service before it is put into force. What it returns beside it
// ends everything, before the bubble does.
func newClockwork(t testing.TB, service schema.ServiceType, engines []engine.Spec, edit func(*config.Service)) (*clockwork, func()) {
	t.Helper()
	doc := config.Default()
	policy := doc.Services[service]
	c := &clockwork{t: t, service: service}
	listeners := map[string]*pipes{}
	for n, spec := range engines {
		host := fmt.Sprintf("gpu%d.test", n)
		listener := newPipes()
		listeners[host+":80"] = listener
		b, err := simulator.Start(simulator.Options{Listener: listener, Engine: &spec, Kind: simulator.VLLM, Models: []string{"m"}})
		if err != nil {
			t.Fatal(err)
		}
		c.engines = append(c.engines, b)
		settings := backend.DefaultSettings()
		settings.Name, settings.BaseURL, settings.Adapter = "m", "http://"+host, "vllm"
		policy.Instances = append(policy.Instances, settings)
	}
	edit(&policy)
	doc.Services[service] = policy
	table, err := routing.Compile(doc.Routed(), nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	current := new(routing.Current)
	current.Follow(fleet.New(fleet.Options{}, time.Now()))
	current.Store(table)
	client := transport.New(transport.Options{Dial: func(_ context.Context, _, address string) (net.Conn, error) { return listeners[address].dial() }})
	c.Proxy = New(current, client)
	return c, func() {
		client.Close()
		for _, b := range c.engines {
			b.Close()
		}
	}
}

// instances returns those of the model.
func (c *clockwork) instances() []*backend.Instance {
	return c.current.Load().Service(c.service).Find("m").Instances
}

// ask sends a request and returns its record and its answer.
func (c *clockwork) ask(parse func(*schema.Request, []byte) error, body string) (*calls.Record, string) {
	c.t.Helper()
	req, record, to := new(schema.Request), newRecord(), newClientConn()
	if err := parse(req, []byte(body)); err != nil {
		c.t.Fatal(err)
	}
	record.Service, record.Door = req.Service, req.Door
	if err := c.Do(context.Background(), &Request{Asks: req, Caller: &access.Caller{}, Record: record}, to); err != nil {
		c.t.Errorf("%v", err)
	}
	return record, to.held.String()
}

// pipes is a network in memory with one server.
type pipes struct {
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once
}

func newPipes() *pipes { return &pipes{conns: make(chan net.Conn), closed: make(chan struct{})} }

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case conn := <-p.conns:
		return conn, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error {
	p.once.Do(func() { close(p.closed) })
	return nil
}

func (*pipes) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 1} }

func (p *pipes) dial() (net.Conn, error) {
	near, far := net.Pipe()
	select {
	case p.conns <- far:
		return near, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}
