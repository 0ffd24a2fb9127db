package pairs_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/coder/websocket"

	"github.com/patchbay-ai/patchbay/internal/gateway/gatewaytest"
)

// mode is how an engine answers calls of its models.
type mode int

const (
	answers mode = iota
	fails        // with the status 500
	dies         // the connection ends before anything is said
	hangs        // until the client leaves or the mode changes
	cuts         // the connection ends after the first words of a stream; what is whole is not begun
	sleeps       // not at all: a call to wake up has no effect
	totals       // with a usage that has only the total
	zeros        // with a usage of zeros
)

// engine is a model server in OpenAI's dialect that can sleep as vLLM does. It serves chats,
// completions, embeddings, transcriptions and realtime conversations, and counts its calls.
type engine struct {
	mu      sync.Mutex
	changed chan struct{} // closed when the mode changes or the engine wakes
	mode    mode
	asleep  bool
	wakes   int
	// isAdapted means that all calls are for a LoRA adapter, which is loaded or not.
	isAdapted, isLoaded bool
	adapterLoads        int
	calls               int    // that were begun
	open                int    // that run
	key                 string // the credential of the latest call that had one
}

// credential returns the credential of the latest call that had one.
func (e *engine) credential() string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.key
}

// startEngine starts an engine, and returns the address of it.
func startEngine(t *testing.T) (e *engine, url string) {
	t.Helper()
	e = &engine{changed: make(chan struct{})}
	server := httptest.NewServer(e)
	t.Cleanup(func() {
		e.is(answers)
		server.CloseClientConnections()
		server.Close()
	})
	return e, server.URL
}

// is changes how the engine answers.
func (e *engine) is(m mode) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.mode = m
	e.announce()
}

// announce lets those look again who wait for a change. It needs the mutex.
func (e *engine) announce() {
	if e.changed != nil {
		close(e.changed)
	}
	e.changed = make(chan struct{})
}

func (e *engine) state() (calls, open, wakes int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.calls, e.open, e.wakes
}

// hasCalls waits until the engine has had so many calls.
func (e *engine) hasCalls(t *testing.T, want int) {
	t.Helper()
	gatewaytest.Eventually(t, fmt.Sprintf("the engine has %d calls", want), func() bool {
		calls, _, _ := e.state()
		return calls >= want
	})
}

// isFree waits until the engine has no call.
func (e *engine) isFree(t *testing.T) {
	t.Helper()
	gatewaytest.Eventually(t, "the engine is free", func() bool {
		_, open, _ := e.state()
		return open == 0
	})
}

// begin counts a call, and returns how it is answered and what counts its end. It waits while
// the engine sleeps or hangs.
func (e *engine) begin(gone <-chan struct{}) (m mode, end func()) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.calls++
	e.open++
	for e.asleep || e.mode == hangs {
		changed := e.changed
		if changed == nil {
			e.changed = make(chan struct{})
			continue
		}
		e.mu.Unlock()
		select {
		case <-changed:
		case <-gone:
			e.mu.Lock()
			return dies, e.end
		}
		e.mu.Lock()
	}
	return e.mode, e.end
}

func (e *engine) end() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.open--
}

// ServeHTTP implements http.Handler.
func (e *engine) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if credential := r.Header.Get("Authorization"); credential != "" {
		e.mu.Lock()
		e.key = credential
		e.mu.Unlock()
	}
	switch path := r.URL.Path; {
	case path == "/v1/load_lora_adapter":
		e.mu.Lock()
		e.isLoaded = true
		e.adapterLoads++
		e.mu.Unlock()
	case r.Method == http.MethodGet && path == "/v1/models":
		e.list(w)
	case e.lacksAdapter() && (r.Method == http.MethodPost || path == "/v1/realtime"):
		http.Error(w, `{"error":{"message":"The model does not exist.","type":"NotFoundError","param":"model","code":404}}`, http.StatusNotFound)
	case path == "/v1/realtime":
		e.converse(w, r)
	case path == "/is_sleeping", path == "/sleep", path == "/wake_up":
		e.sleepOrWake(w, path)
	case r.Method == http.MethodGet: // health and metrics
	default:
		e.answer(w, r)
	}
}

// list lists the LoRA adapter if it is loaded.
func (e *engine) list(w io.Writer) {
	e.mu.Lock()
	defer e.mu.Unlock()
	adapter := ""
	if e.isLoaded {
		adapter = `{"id":"m","root":"/l/m","parent":"base"}`
	}
	fmt.Fprintf(w, `{"object":"list","data":[%s]}`, adapter)
}

// lacksAdapter reports whether calls are for an adapter that is not loaded.
func (e *engine) lacksAdapter() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.isAdapted && !e.isLoaded
}

// loseAdapter forgets the adapter, and returns how often it was loaded.
func (e *engine) loseAdapter() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.isLoaded = false
	return e.adapterLoads
}

// sleepOrWake is vLLM's sleep mode.
func (e *engine) sleepOrWake(w io.Writer, path string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	switch path {
	case "/sleep":
		e.asleep = true
	case "/wake_up":
		e.asleep = e.mode == sleeps
		e.wakes++
		e.announce()
	default:
		fmt.Fprintf(w, `{"is_sleeping":%t}`, e.asleep)
	}
}

// answer answers one call.
func (e *engine) answer(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	m, end := e.begin(r.Context().Done())
	defer end()
	isStream := strings.Contains(string(body), `"stream":true`)
	switch {
	case m == fails:
		http.Error(w, `{"error":{"message":"the engine fails"}}`, http.StatusInternalServerError)
	case m == dies, m == cuts && !isStream:
		panic(http.ErrAbortHandler)
	case isStream:
		w.Header().Set("Content-Type", "text/event-stream")
		object, begins, ends := "chat.completion.chunk", `"delta":{"role":"assistant","content":"Hello"}`, `"delta":{"content":" there"}`
		if strings.HasSuffix(r.URL.Path, "/v1/completions") {
			object, begins, ends = "text_completion", `"text":"Hello"`, `"text":" there"`
		}
		say := func(choice, finish string) {
			fmt.Fprintf(w, "data: {\"id\":\"x\",\"object\":%q,\"created\":1,\"model\":\"m\",\"choices\":[{\"index\":0,%s,\"finish_reason\":%s}]}\n\n", object, choice, finish)
			_ = http.NewResponseController(w).Flush()
		}
		if !strings.Contains(string(body), "Hello") { // it does not go on with an answer
			say(begins, "null")
		}
		if m == cuts {
			panic(http.ErrAbortHandler)
		}
		say(ends, `"stop"`)
		fmt.Fprintf(w, "data: {\"id\":\"x\",\"object\":%q,\"created\":1,\"model\":\"m\",\"choices\":[],\"usage\":%s}\n\ndata: [DONE]\n\n", object, m.usage())
	default:
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, wholeAnswer(r.URL.Path, strings.Count(string(body), "input "), m.usage()))
	}
}

// usage is the report of an answer.
func (m mode) usage() string {
	switch m {
	case totals:
		return `{"total_tokens":30}`
	case zeros:
		return `{"prompt_tokens":0,"completion_tokens":0,"total_tokens":0}`
	}
	return `{"prompt_tokens":10,"completion_tokens":20,"total_tokens":30}`
}

// wholeAnswer is an answer that is no stream; inputs is how many texts are embedded.
func wholeAnswer(path string, inputs int, usage string) string {
	switch path {
	case "/v1/embeddings":
		vectors := make([]string, max(inputs, 1))
		for i := range vectors {
			vectors[i] = fmt.Sprintf(`{"object":"embedding","index":%d,"embedding":[0.5]}`, i)
		}
		return `{"object":"list","model":"m","data":[` + strings.Join(vectors, ",") + `],"usage":` + usage + `}`
	case "/v1/audio/transcriptions":
		return `{"text":"Hello there"}`
	case "/v1/completions":
		return `{"id":"x","object":"text_completion","created":1,"model":"m","choices":[{"index":0,"text":"Hello there","finish_reason":"stop"}],"usage":` + usage + `}`
	}
	return `{"id":"x","object":"chat.completion","created":1,"model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"Hello there"},"finish_reason":"stop"}],"usage":` + usage + `}`
}

// converse is a conversation of the Realtime API. What fails or dies does so when the connection
// is opened.
func (e *engine) converse(w http.ResponseWriter, r *http.Request) {
	e.mu.Lock()
	m := e.mode
	e.mu.Unlock()
	if m == fails || m == dies {
		_, end := e.begin(r.Context().Done())
		defer end()
		if m == dies {
			panic(http.ErrAbortHandler)
		}
		http.Error(w, `{"error":{"message":"the engine fails"}}`, http.StatusInternalServerError)
		return
	}
	conn, err := websocket.Accept(w, r, &websocket.AcceptOptions{Subprotocols: []string{"realtime"}})
	if err != nil {
		return
	}
	defer func() { _ = conn.CloseNow() }()
	gone := make(chan struct{})
	messages := make(chan string, 100)
	var reading sync.WaitGroup
	reading.Go(func() {
		defer close(gone)
		defer close(messages)
		for {
			_, text, err := conn.Read(r.Context())
			if err != nil {
				return
			}
			messages <- string(text)
		}
	})
	defer reading.Wait()
	defer func() { _ = conn.CloseNow() }()
	say := func(text string) { _ = conn.Write(r.Context(), websocket.MessageText, []byte(text)) }
	say(`{"type":"session.created","session":{"id":"s","model":"m"}}`)
	number := 0
	for text := range messages {
		if !strings.Contains(text, `"response.create"`) {
			continue
		}
		number++
		say(fmt.Sprintf(`{"type":"response.created","response":{"id":"r%d","status":"in_progress"}}`, number))
		m, end := e.begin(gone)
		if m == dies {
			end()
			return
		}
		say(fmt.Sprintf(`{"type":"response.output_text.delta","response_id":"r%d","delta":"Hello"}`, number))
		if m == cuts {
			end()
			return
		}
		say(fmt.Sprintf(`{"type":"response.done","response":{"id":"r%d","status":"completed","usage":%s}}`, number, m.usage()))
		end()
	}
}
