// Package simulator provides backends that need no model: real HTTP servers
// on loopback that answer deterministically and misbehave on request. The
// demo shows them to people, tests script them, benchmarks load them.
//
// A request passes four stages, each in its own file: the journal notes it, a
// script or a behaviour chooses the Step that describes how it is answered, a
// service makes the answer, and the exchange sends it the way the step says.
// Services know nothing about simulated faults, so a new service type is one file
// that makes answers and a line in routes.go; a dialect has a row in dialect.go, too.
package simulator

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/patchbay-ai/patchbay/internal/testing/simulator/engine"
)

// Options are the settings of a backend. The zero value is a backend that knows every
// model, answers without delay and asks for no key.
type Options struct {
	// Name is how the backend calls itself in its answers; "simulator" if empty.
	Name string
	// Addr is the address to listen on; "127.0.0.1:0" if empty.
	Addr string
	// Listener is used instead of Addr when set; the backend closes it. A
	// listener that lives in memory lets a backend run on the fake clock of
	// testing/synctest.
	Listener net.Listener
	// Models are the names that the backend knows in addition to the names in Behaviours;
	// others are answered with 404. Empty means that every name is known.
	Models []string
	// Key, when set, must come with every request, as a bearer token or in
	// the header of the dialect, except with GET /health and for images. The
	// refusal repeats the key that was presented, as some real backends do.
	Key string
	// TokenDelay passes between two events of a stream, which for speech is a
	// chunk of audio. Plain answers come at once.
	TokenDelay time.Duration
	// Engine, when set, makes chats, completions, embeddings and rankings take the time
	// that an inference engine would take, and the backend report on it; TokenDelay does
	// not count then. Kind is the product that the engine imitates.
	Engine *engine.Spec
	Kind   Kind
	// Sleepless makes a vLLM without a sleep mode, like a real one unless
	// VLLM_SERVER_DEV_MODE is set: it neither sleeps nor knows the commands.
	Sleepless bool
	// Adapters, when set, make a vLLM that loads LoRA adapters.
	Adapters *Adapters
	// Chain makes each token of a chat or a completion a hash of everything before it,
	// which shows whether an answer that another backend continues has lost or doubled
	// anything. A backend of OpenAI's dialect continues a last message of the model only
	// if it is asked to, as vLLM does, unless Kind is LlamaCpp.
	Chain bool
	// Default describes the answers to requests that neither the script nor Behaviours
	// decide.
	Default Behaviour
	// Behaviours say how the requests of a model are answered, by its name.
	Behaviours map[string]Behaviour
	// Window, when set, is the context window that the backend reports, and refuses longer prompts of,
	// as real ones do. A prompt has a token for each windowBytes bytes of the request.
	Window int
	// Record keeps the bodies of requests in the journal, each up to BodyCap bytes.
	Record bool
	// BodyCap is 64 KiB if zero.
	BodyCap int
	// JournalSize is how many of the latest requests are kept; 1000 if zero.
	JournalSize int
}

func (o Options) withDefaults() Options {
	if o.Name == "" {
		o.Name = "simulator"
	}
	if o.Addr == "" {
		o.Addr = "127.0.0.1:0"
	}
	if o.BodyCap == 0 {
		o.BodyCap = 64 << 10
	}
	if o.JournalSize == 0 {
		o.JournalSize = 1000
	}
	return o
}

// Backend is a running simulated backend.
type Backend struct {
	options  Options
	listener *flakyListener
	server   *http.Server
	choice   *chooser
	requests *journal
	probes   *journal
	served   atomic.Uint64
	// hasUnloaded says that a model was unloaded and its server has not ended yet.
	hasUnloaded atomic.Bool
	images      imageStore
	adapters    adapters
	engine      *engine.Live // nil without one
	lie         atomic.Pointer[Lie]
	// responses can be continued and fetched.
	responses responseStore

	ctx       context.Context // ends when Close is called, and every request with it
	cancel    context.CancelFunc
	closeOnce sync.Once
	accepting chan struct{} // closed when the accept loop has ended
	conns     sync.WaitGroup
	handlers  sync.WaitGroup
}

// Start starts a backend. Its owner calls Close.
func Start(options Options) (*Backend, error) {
	options = options.withDefaults()
	inner := options.Listener
	if inner == nil {
		var err error
		if inner, err = new(net.ListenConfig).Listen(context.Background(), "tcp", options.Addr); err != nil {
			return nil, fmt.Errorf("simulator: %w", err)
		}
	}
	b := &Backend{
		options:   options,
		listener:  &flakyListener{Listener: inner},
		choice:    newChooser(options),
		requests:  newJournal(options),
		probes:    newJournal(options),
		accepting: make(chan struct{}),
	}
	if options.Engine != nil {
		spec := *options.Engine
		spec.Insists = options.Kind == LlamaRouter || options.Kind == LlamaSwap
		b.engine = engine.NewLive(spec)
	}
	b.ctx, b.cancel = context.WithCancel(context.Background())
	routes := b.routes()
	b.server = &http.Server{
		Handler:           http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { b.serve(w, r, routes) }),
		BaseContext:       func(net.Listener) context.Context { return b.ctx },
		ConnState:         b.countConn,
		ReadHeaderTimeout: 30 * time.Second,
		ErrorLog:          slog.NewLogLogger(slog.DiscardHandler, slog.LevelError), // connections die here on purpose
	}
	go func() {
		defer close(b.accepting)
		_ = b.server.Serve(b.listener) // always ends with ErrServerClosed
	}()
	return b, nil
}

// URL returns the base URL of the backend, without a trailing slash.
func (b *Backend) URL() string { return "http://" + b.listener.Addr().String() }

// SetDown makes the backend drop every new connection and request at once, or
// stops doing so. Answers that have begun continue. Dropped requests are not in the
// journal.
func (b *Backend) SetDown(down bool) { b.listener.down.Store(down) }

// Close ends every connection, also in the middle of an answer, and returns when
// everything the backend started has ended.
func (b *Backend) Close() {
	b.closeOnce.Do(func() {
		// The context is cancelled first: a handler can then distinguish the end of the
		// backend from a client that left.
		b.cancel()
		_ = b.server.Close()
		if b.engine != nil {
			b.engine.Close()
		}
	})
	// The order matters: only the accept loop adds connections, and only a
	// counted connection adds handlers.
	<-b.accepting
	b.conns.Wait()
	b.handlers.Wait()
}

func (b *Backend) countConn(_ net.Conn, state http.ConnState) {
	switch state {
	case http.StateNew:
		b.conns.Add(1)
	case http.StateClosed, http.StateHijacked: // a hijacked connection is closed by its handler
		b.conns.Done()
	}
}

// flakyListener accepts connections and, while down, drops them at once.
type flakyListener struct {
	net.Listener
	down atomic.Bool
}

func (l *flakyListener) Accept() (net.Conn, error) {
	for {
		conn, err := l.Listener.Accept()
		if err != nil || !l.down.Load() {
			return conn, err
		}
		resetConn(conn)
	}
}
