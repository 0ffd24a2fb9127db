package proxy

import (
	"context"
	"net/netip"
	"testing"
	"time"

	"github.com/patchbay-ai/patchbay/internal/access"
	"github.com/patchbay-ai/patchbay/internal/config"
	"github.com/patchbay-ai/patchbay/internal/hosts/backend"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
	"github.com/patchbay-ai/patchbay/internal/route/routing"
	"github.com/patchbay-ai/patchbay/internal/see/calls"
)

const benchBody = `{"model":"llama-3.1-8b","temperature":0.7,"stream":true,"messages":[` +
	`{"role":"system","content":"You are a helpful assistant that answers briefly and says when it does not know."},` +
	`{"role":"user","content":"Tell me about patch bays: what they connect, who uses them, and why a gateway for AI models may be named after one. Two paragraphs will do. Mention telephone exchanges, recording studios and server rooms, and end with one sentence that a newcomer would remember after a day."},` +
	`{"role":"assistant","content":"A patch bay is a panel of sockets on which the inputs and outputs of many devices end, so that any of them can be connected by a short cord without touching the devices themselves."},` +
	`{"role":"user","content":"Go on. What would be the cord in the case of a gateway, and what would be the sockets? Keep to the picture, and say where it fails."}],"user":"someone"}`

// benchProxy is a proxy with a pool of three instances and every policy on.
func benchProxy(tb testing.TB) *Proxy {
	tb.Helper()
	doc := config.Default()
	chat := doc.Services[schema.Chat]
	chat.RateLimit.Enabled, chat.RateLimit.Capacity, chat.RateLimit.RefillRate = true, 1_000_000_000, 1_000_000_000
	for _, address := range []string{"http://gpu1:8000", "http://gpu2:8000", "http://gpu3:8000"} {
		settings := backend.DefaultSettings()
		settings.Name, settings.BaseURL, settings.MaxConcurrency = "llama-3.1-8b", address, 64
		chat.Instances = append(chat.Instances, settings)
	}
	doc.Services[schema.Chat] = chat
	table, err := routing.Compile(doc.Routed(), nil, nil)
	if err != nil {
		tb.Fatal(err)
	}
	current := new(routing.Current)
	current.Store(table)
	return New(current, nil)
}

// route does all that happens to a request here but the call itself: find,
// limit, pick, acquire, write the call, settle.
func (p *Proxy) route(tb testing.TB, req *Request) {
	asks, caller, record := req.Asks, req.Caller, req.Record
	record.Reset()
	record.Started = time.Now()
	*req = Request{Asks: asks, Caller: caller, Record: record}
	r := p.begin(req)
	if err := r.let(context.Background()); err != nil {
		tb.Fatal(err)
	}
	if !r.choice.acquire(&r.attempt) {
		tb.Fatal("nobody is ready")
	}
	r.choice.noteCall(r.attempt.instance)
	r.reply.FirstByte = r.choice.last.Now
	r.end(false)
	req.Asks = asks
}

func BenchmarkRouteAndSettle(b *testing.B) {
	p := benchProxy(b)
	req, record := new(schema.Request), new(calls.Record)
	way := &Request{Asks: req, Caller: &access.Caller{Addr: netip.MustParseAddr("192.0.2.1"), RequestID: "req_1"}, Record: record}
	if err := req.ParseChat([]byte(benchBody)); err != nil {
		b.Fatal(err)
	}
	b.Run("without scan", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			p.route(b, way)
		}
	})
	b.Run("with scan", func(b *testing.B) {
		b.ReportAllocs()
		b.SetBytes(int64(len(benchBody)))
		body := []byte(benchBody)
		for b.Loop() {
			req.Reset()
			if err := req.ParseChat(body); err != nil {
				b.Fatal(err)
			}
			p.route(b, way)
		}
	})
}

func TestRoutingDoesNotAllocate(t *testing.T) {
	if testing.CoverMode() != "" || raceEnabled {
		t.Skip("instrumented builds allocate on their own")
	}
	p := benchProxy(t)
	req, record := new(schema.Request), new(calls.Record)
	way := &Request{Asks: req, Caller: &access.Caller{Addr: netip.MustParseAddr("192.0.2.1"), RequestID: "req_1"}, Record: record}
	body := []byte(benchBody)
	if n := testing.AllocsPerRun(200, func() {
		req.Reset()
		if err := req.ParseChat(body); err != nil {
			t.Fatal(err)
		}
		p.route(t, way)
	}); n > 0 {
		t.Errorf("%v allocations per request, want none", n)
	}
}
