package simulator

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/patchbay-ai/patchbay/internal/testing/waittest"
)

func TestProbesAndModels(t *testing.T) {
	r := newRig(t, Options{Name: "alpha", Models: []string{"b", "a"}, Behaviours: map[string]Behaviour{"z": {}, "a": {}}})
	r.Script(Step{Status: 500})
	if got := r.do(waittest.Context(t), http.MethodGet, "/health", ""); got.status != 200 || got.body != `{"status":"ok"}` {
		t.Errorf("health: %+v", got)
	}
	got := r.do(waittest.Context(t), http.MethodGet, "/v1/models", "")
	want := `{"object":"list","data":[` +
		`{"id":"b","object":"model","created":1767225600,"owned_by":"alpha"},` +
		`{"id":"a","object":"model","created":1767225600,"owned_by":"alpha"},` +
		`{"id":"z","object":"model","created":1767225600,"owned_by":"alpha"}]}`
	if diff := cmp.Diff(want, got.body); diff != "" {
		t.Error(diff)
	}
	if r.ScriptLeft() != 1 || r.Stats().Arrived != 0 || len(r.Probes()) != 2 {
		t.Errorf("probes touched the script or the requests: %+v", r.Stats())
	}
	r.SetProbe(Step{Status: 503})
	if got := r.do(waittest.Context(t), http.MethodGet, "/health", ""); got.status != 503 {
		t.Errorf("health: %+v", got)
	}
}

func TestKeyIsAskedForAndLeaked(t *testing.T) {
	r := newRig(t, Options{Key: "right"})
	r.Script(Step{Status: 500})
	for _, test := range []struct {
		path, key string
		status    int
	}{
		{"/v1/chat/completions", "wrong", 401},
		{"/v1/chat/completions", "right", 500}, // the refusal left the script alone
		{"/v1/chat/completions", "right", 200},
		{"/health", "", 200},
	} {
		method := http.MethodPost
		if test.path == "/health" {
			method = http.MethodGet
		}
		request, _ := http.NewRequestWithContext(waittest.Context(t), method, r.URL()+test.path, strings.NewReader(hi))
		request.Header.Set("Authorization", "Bearer "+test.key)
		response, err := r.client.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		body, _ := io.ReadAll(response.Body)
		response.Body.Close()
		if response.StatusCode != test.status || test.status == 401 && !strings.Contains(string(body), "wrong") {
			t.Errorf("%s with %q: %d %s", test.path, test.key, response.StatusCode, body)
		}
	}
}

func TestScriptsAreConsumedThenTheDefaultHolds(t *testing.T) {
	r := newRig(t, Options{Default: Behaviour{Step: Step{Status: 418}, Every: 2}})
	statuses := func(n int) (got []int) {
		for range n {
			got = append(got, r.chat(hi).status)
		}
		return got
	}
	r.Script(Step{Status: 500}, Step{})
	if diff := cmp.Diff([]int{500, 200, 200, 418, 200, 418}, statuses(6)); diff != "" {
		t.Error(diff)
	}
	r.ScriptForever(Step{Status: 500}, Step{Status: 503})
	if diff := cmp.Diff([]int{500, 503, 503}, statuses(3)); diff != "" {
		t.Error(diff)
	}
	r.Script()
	r.SetDefault(Behaviour{})
	if diff := cmp.Diff([]int{200, 200}, statuses(2)); diff != "" {
		t.Error(diff)
	}
}

func TestJournalKeepsTheLatestRequests(t *testing.T) {
	r := newRig(t, Options{Record: true, BodyCap: 5, JournalSize: 2})
	for _, path := range []string{"/a", "/b", "/c?d=e"} {
		r.do(waittest.Context(t), http.MethodPost, path, "123456789")
	}
	if err := r.WaitIdle(waittest.Context(t)); err != nil {
		t.Fatal(err)
	}
	got := r.Requests()
	if len(got) != 2 || got[0].Path != "/b" || got[1].Path != "/c?d=e" {
		t.Fatalf("got %+v", got)
	}
	last := got[1]
	if last.Method != http.MethodPost || string(last.Body) != "12345" || last.BodyLength != 9 || last.Header.Get("User-Agent") == "" {
		t.Errorf("got %+v", last)
	}
	if last.Arrived.IsZero() || last.Ended.Before(last.Arrived) || !last.Cancelled.IsZero() {
		t.Errorf("times of %+v", last)
	}
	if diff := cmp.Diff(Stats{Arrived: 3, Received: 3, Ended: 3, PeakInFlight: 1}, r.Stats()); diff != "" {
		t.Error(diff)
	}
}

func TestBodiesAreKeptOnlyOnRequest(t *testing.T) {
	r := newRig(t, Options{})
	r.chat(hi)
	if got := r.Requests()[0]; got.Body != nil || got.BodyLength != len(hi) {
		t.Errorf("got %+v", got)
	}
}

func TestClientsThatLeaveAreNoticed(t *testing.T) {
	tests := []struct {
		name string
		step Step
		body string
	}{
		{"while it hangs", Step{Hang: true}, hi},
		{"before the head", Step{HeaderDelay: 1 << 40}, hi},
		{"before the first event", Step{FirstDelay: 1 << 40}, hiStream},
		{"between events", Step{EventDelay: 1 << 40}, hiStream},
		{"in a stall", Step{Stop: StopStall, After: 2}, hiStream},
		{"in a stalled plain body", Step{Stop: StopStall}, hi},
		{"in a stalled raw answer", Step{Raw: "HTTP/1.1 200 OK\r\n\r\n", Stop: StopStall}, hi},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			r := newRig(t, Options{})
			r.Script(test.step)
			ctx, leave := context.WithCancel(waittest.Context(t))
			ended := make(chan reply)
			go func() { ended <- r.do(ctx, http.MethodPost, "/v1/chat/completions", test.body) }()
			if err := r.WaitRequests(waittest.Context(t), 1); err != nil {
				t.Fatal(err)
			}
			leave()
			if got := <-ended; !errors.Is(got.err, context.Canceled) {
				t.Errorf("the client saw %+v", got)
			}
			if err := r.WaitCancelled(waittest.Context(t), 1); err != nil {
				t.Fatal(err)
			}
			if got := r.Requests()[0]; got.Cancelled.Before(got.Arrived) {
				t.Errorf("got %+v", got)
			}
		})
	}
}

func TestClientThatLeavesInsideItsBodyIsNoticed(t *testing.T) {
	r := newRig(t, Options{Record: true})
	conn, err := net.Dial("tcp", strings.TrimPrefix(r.URL(), "http://"))
	if err != nil {
		t.Fatal(err)
	}
	_, _ = io.WriteString(conn, "POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\nhalf")
	if err := r.Wait(waittest.Context(t), func(s Stats) bool { return s.InFlight == 1 }); err != nil {
		t.Fatal(err)
	}
	conn.Close()
	if err := r.WaitCancelled(waittest.Context(t), 1); err != nil {
		t.Fatal(err)
	}
	if got := r.Requests()[0]; string(got.Body) != "half" {
		t.Errorf("got %+v", got)
	}
}

func TestClientThatLeavesAFastStreamIsNoticed(t *testing.T) {
	for _, slice := range []int{0, 7} {
		r := newRig(t, Options{})
		r.Script(Step{Text: strings.Repeat(" word", 200_000), Slice: slice}) // more than sockets buffer
		request, _ := http.NewRequestWithContext(waittest.Context(t), http.MethodPost, r.URL()+"/v1/chat/completions", strings.NewReader(hiStream))
		response, err := r.client.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		response.Body.Close()
		if err := r.WaitCancelled(waittest.Context(t), 1); err != nil {
			t.Fatal(err)
		}
	}
}

func TestCloseEndsEverythingUnderWay(t *testing.T) {
	for _, step := range []Step{{Hang: true}, {EventDelay: 1 << 40}, {Raw: "HTTP/1.1 200 OK\r\n\r\n", Stop: StopStall}} {
		r := newRig(t, Options{})
		r.Script(step)
		ended := make(chan reply)
		go func() { ended <- r.do(waittest.Context(t), http.MethodPost, "/v1/chat/completions", hiStream) }()
		if err := r.WaitRequests(waittest.Context(t), 1); err != nil {
			t.Fatal(err)
		}
		r.Close()
		r.Close() // a second time does nothing
		if got := <-ended; step.Raw == "" && got.err == nil {
			t.Errorf("the client saw a complete answer: %+v", got)
		}
		if got := r.Stats(); got.InFlight != 0 || got.Cancelled != 0 || got.Ended != 1 {
			t.Errorf("stats %+v", got)
		}
	}
}

func TestPeakInFlight(t *testing.T) {
	r := newRig(t, Options{})
	r.ScriptForever(Step{Hang: true})
	ctx, leave := context.WithCancel(waittest.Context(t))
	ended := make(chan reply)
	for range 5 {
		go func() { ended <- r.do(ctx, http.MethodPost, "/v1/chat/completions", hi) }()
	}
	if err := r.Wait(waittest.Context(t), func(s Stats) bool { return s.InFlight == 5 }); err != nil {
		t.Fatal(err)
	}
	leave()
	for range 5 {
		<-ended
	}
	if err := r.WaitIdle(waittest.Context(t)); err != nil {
		t.Fatal(err)
	}
	if got := r.Stats(); got.PeakInFlight != 5 || got.Cancelled != 5 {
		t.Errorf("stats %+v", got)
	}
}

func TestConnectionsAreKeptAlive(t *testing.T) {
	r := newRig(t, Options{})
	addresses := map[string]bool{}
	dial := (&net.Dialer{}).DialContext
	r.client.Transport.(*http.Transport).DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := dial(ctx, network, address)
		if err == nil {
			addresses[conn.LocalAddr().String()] = true
		}
		return conn, err
	}
	r.Script(Step{}, Step{Status: 500}, Step{Stop: StopEnd, After: 2})
	for _, body := range []string{hi, hi, hiStream, `{`, hi} {
		if got := r.chat(body); got.err != nil {
			t.Errorf("got %+v", got)
		}
	}
	if len(addresses) != 1 {
		t.Errorf("connections %v", addresses)
	}
}

func TestBackendThatIsDownComesBack(t *testing.T) {
	r := newRig(t, Options{})
	r.chat(hi) // leaves an idle connection behind, which must drop requests too
	r.SetDown(true)
	for range 2 {
		if got := r.chat(hi); got.err == nil {
			t.Errorf("got %+v", got)
		}
	}
	r.SetDown(false)
	if got := r.chat(hi); got.status != 200 || r.Stats().Arrived != 2 {
		t.Errorf("got %+v, stats %+v", got, r.Stats())
	}
}

func TestNothingListensAtDownURL(t *testing.T) {
	_, err := net.Dial("tcp", strings.TrimPrefix(DownURL, "http://"))
	if !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("got %v", err)
	}
}

func TestStartReportsAnAddressInUse(t *testing.T) {
	r := newRig(t, Options{})
	if _, err := Start(Options{Addr: strings.TrimPrefix(r.URL(), "http://")}); !errors.Is(err, syscall.EADDRINUSE) {
		t.Errorf("got %v", err)
	}
}

func TestWaitGivesUpWithItsContext(t *testing.T) {
	r := newRig(t, Options{})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := r.WaitProbes(ctx, 1); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}
