package v1_test

import (
	"fmt"
	"net"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/patchbay-ai/patchbay/internal/gateway/gatewaytest"
	"github.com/patchbay-ai/patchbay/internal/testing/simulator"
)

// Every status of a backend, with bodies of every shape, becomes an error that
// clients can read.
func TestStatusesOfBackends(t *testing.T) {
	const text = "the backend's own words"
	shapes := map[string]simulator.Step{
		"object":          {Body: simulator.ErrorObject(text, "some_type", "some_code")},
		"text in error":   {Body: simulator.ErrorText(text)},
		"message":         {Body: `{"message":"` + text + `"}`},
		"detail":          {Body: `{"detail":"` + text + `"}`},
		"plain text":      {Body: text},
		"JSON string":     {Body: `"` + text + `"`},
		"page":            {Body: simulator.HTMLPage},
		"nothing":         {NoBody: true},
		"invalid UTF-8":   {Body: "\xff\xfe"},
		"JSON array":      {Body: `[1]`},
		"cut in the body": {Body: simulator.ErrorObject(text, "t", "c"), Stop: simulator.StopClose},
	}
	type want struct {
		status     int
		kind, code string
	}
	for status, want := range map[int]want{
		400: {400, gatewaytest.InvalidRequest, "upstream_error"},
		401: {502, "api_error", "upstream_auth_failed"},
		403: {502, "api_error", "upstream_auth_failed"},
		404: {404, gatewaytest.InvalidRequest, "upstream_error"},
		409: {409, gatewaytest.InvalidRequest, "upstream_error"},
		418: {418, gatewaytest.InvalidRequest, "upstream_error"},
		422: {422, gatewaytest.InvalidRequest, "upstream_error"},
		429: {429, "rate_limit_exceeded", "upstream_rate_limited"},
		500: {500, "api_error", "upstream_error"},
		501: {501, "api_error", "upstream_error"},
		502: {502, "api_error", "upstream_error"},
		503: {503, "api_error", "upstream_error"},
		504: {504, "api_error", "upstream_error"},
		599: {599, "api_error", "upstream_error"},
	} {
		t.Run(fmt.Sprint(status), func(t *testing.T) {
			t.Parallel()
			gatewaytest.Both(t, func(t *testing.T, body string) {
				r, b := gatewaytest.StartOne(t)
				for shape, step := range shapes {
					step.Status = status
					b.Script(step)
					fault := r.Chat(body).FailsWith(t, want.status, want.kind, want.code, "")
					if strings.Contains(step.Body, text) && step.Stop == 0 && !strings.Contains(string(fault.Details), text) {
						t.Errorf("%s: the backend's text is lost: %s", shape, fault.Details)
					}
					if strings.Contains(string(fault.Details)+fault.Message, "<h1>") {
						t.Errorf("%s: markup is passed on: %s, %s", shape, fault.Message, fault.Details)
					}
					// Of a credential that the caller does not know, the details say enough.
					told := strings.Contains(step.Body, text) && want.code != "upstream_auth_failed"
					if step.Stop == 0 && strings.HasSuffix(fault.Message, ": "+text) != told {
						t.Errorf("%s: the message is %q", shape, fault.Message)
					}
				}
				i := r.Instances("m")[0]
				gatewaytest.Eventually(t, "nothing is in flight", func() bool { return i.InFlight() == 0 })
				success, failure, cancelled := gatewaytest.Outcomes(i)
				if blamed := status >= 500; success != 0 || (failure > 0) != blamed || (cancelled > 0) == blamed {
					t.Errorf("outcomes %d %d %d", success, failure, cancelled)
				}
			})
		})
	}
}

func TestRetryAfterOfBackends(t *testing.T) {
	t.Parallel()
	at := func(d time.Duration) string { return time.Now().Add(d).UTC().Format(http.TimeFormat) }
	for name, test := range map[string]struct {
		status         int
		header         http.Header
		seconds        string
		retryIsUseless bool
	}{
		"none on 429":          {429, nil, "1", false},
		"seconds":              {429, http.Header{"Retry-After": {"7"}}, "7", false},
		"fraction":             {429, http.Header{"Retry-After": {"1.2"}}, "2", false},
		"at the cap":           {429, http.Header{"Retry-After": {"30"}}, "30", false},
		"beyond the cap":       {429, http.Header{"Retry-After": {"31"}}, "30", true},
		"far beyond the cap":   {429, http.Header{"Retry-After": {"99999"}}, "30", true},
		"date beyond the cap":  {429, http.Header{"Retry-After": {at(time.Hour)}}, "30", true},
		"date in the past":     {429, http.Header{"Retry-After": {at(-time.Hour)}}, "1", false},
		"zero":                 {429, http.Header{"Retry-After": {"0"}}, "1", false},
		"negative":             {429, http.Header{"Retry-After": {"-5"}}, "1", false},
		"garbage":              {429, http.Header{"Retry-After": {"soon"}}, "1", false},
		"infinite":             {429, http.Header{"Retry-After": {"Inf"}}, "1", false},
		"milliseconds win":     {429, http.Header{"Retry-After": {"9"}, "Retry-After-Ms": {"2500"}}, "3", false},
		"few milliseconds":     {429, http.Header{"Retry-After-Ms": {"20"}}, "1", false},
		"503 with seconds":     {503, http.Header{"Retry-After": {"4"}}, "4", false},
		"503 without":          {503, nil, "1", false},
		"503 beyond the cap":   {503, http.Header{"Retry-After": {"120"}}, "30", true},
		"500 has none to give": {500, nil, "", false},
	} {
		t.Run(name, func(t *testing.T) {
			r, _ := gatewaytest.StartOne(t, simulator.Step{Status: test.status, Header: test.header})
			answer := r.Chat(gatewaytest.PlainHi)
			if answer.Status != test.status {
				t.Fatalf("status %d: %s", answer.Status, answer.Body)
			}
			got, exact := answer.Header.Get("Retry-After"), answer.Header.Get("Retry-After-Ms")
			if got != test.seconds || (got == "") != (exact == "") {
				t.Errorf("Retry-After %q, retry-after-ms %q, want %s", got, exact, test.seconds)
			}
			if useless := answer.Header.Get("X-Should-Retry") == "false"; useless != test.retryIsUseless {
				t.Errorf("x-should-retry %q", answer.Header.Get("X-Should-Retry"))
			}
		})
	}
}

func TestRetryAfterDateOfABackend(t *testing.T) {
	t.Parallel()
	const ahead = 25 * time.Second
	at := time.Now().Add(ahead)
	r, _ := gatewaytest.StartOne(t, simulator.Step{Status: 429, Header: http.Header{"Retry-After": {at.UTC().Format(http.TimeFormat)}}})
	wait := r.Chat(gatewaytest.PlainHi).RetryOf(t)
	// The date has whole seconds, and so has the reply.
	if left := time.Until(at); wait < left-time.Second || wait > ahead {
		t.Errorf("told to wait %v when %v were left", wait, left)
	}
}

// What is no answer at all is a 502, whatever status it claims.
func TestGarbageFromBackends(t *testing.T) {
	for name, step := range map[string]simulator.Step{
		"error inside a 200":       {Body: simulator.ErrorObject("no", "t", "c")},
		"error text inside a 200":  {Body: simulator.ErrorText("no")},
		"error object inside":      {Body: `{"object":"error","message":"no","type":"x","code":500}`},
		"page with 200":            {Body: simulator.HTMLPage},
		"no JSON":                  {Body: "hello"},
		"half of the JSON":         {Body: gatewaytest.RawBody, Stop: simulator.StopEnd},
		"empty":                    {NoBody: true},
		"no choices":               {Body: `{"id":"x"}`},
		"empty choices":            {Body: `{"id":"x","choices":[]}`},
		"choices null":             {Body: `{"id":"x","choices":null}`},
		"array":                    {Body: `[]`},
		"invalid UTF-8":            {Body: "{\"choices\":[{\"message\":{\"content\":\"\xff\"}}]}"},
		"too deep":                 {Body: `{"choices":` + strings.Repeat("[", 200) + strings.Repeat("]", 200) + `}`},
		"redirect":                 {Status: 302, Header: http.Header{"Location": {"http://127.0.0.1:1/elsewhere"}}},
		"permanent redirect":       {Status: 308, Header: http.Header{"Location": {"/v1/chat/completions"}}},
		"no content":               {Status: 204, NoBody: true},
		"not modified":             {Status: 304, NoBody: true},
		"compressed":               {Body: gatewaytest.RawBody, Header: http.Header{"Content-Encoding": {"gzip"}}},
		"not HTTP":                 {Raw: "SSH-2.0-OpenSSH_9.2\r\n"},
		"status line only":         {Raw: "HTTP/1.1 200 OK\r\n"},
		"head only":                {Raw: "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n"},
		"status of two digits":     {Raw: "HTTP/1.1 20 OK\r\nContent-Length: 2\r\n\r\n{}"},
		"two lengths":              {Raw: "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\n{}"},
		"negative length":          {Raw: "HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n{}"},
		"bad chunking":             {Raw: "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n"},
		"upgrade":                  {Raw: "HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n"},
		"endless head":             {Raw: "HTTP/1.1 200 OK\r\nX: " + strings.Repeat("x", 2<<20) + "\r\n\r\n"},
		"reset before the head":    {Reset: true},
		"closed before the head":   {Raw: " "},
		"reset inside the body":    {Stop: simulator.StopReset, Body: gatewaytest.RawBody},
		"closed inside the body":   {Stop: simulator.StopClose, Body: gatewaytest.RawBody},
		"reset after half a head":  {Raw: "HTTP/1.1 200 OK\r\nContent-Le", Stop: simulator.StopReset},
		"closed after half a head": {Raw: "HTTP/1.1 200 OK\r\nContent-Le"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			gatewaytest.Both(t, func(t *testing.T, body string) {
				r, b := gatewaytest.StartOne(t, step)
				answer := r.Chat(body)
				code := gatewaytest.ErrorOf(t, answer.Body).Code
				if code != "upstream_stream_truncated" || body == gatewaytest.PlainHi {
					code = "upstream_error"
				}
				answer.FailsWith(t, http.StatusBadGateway, "api_error", code, "")
				if b.Stats().Arrived != 1 {
					t.Errorf("the backend got %d requests", b.Stats().Arrived)
				}
				i := r.Instances("m")[0]
				if success, failure, cancelled := gatewaytest.Outcomes(i); success != 0 || failure != 1 || cancelled != 0 || i.InFlight() != 0 {
					t.Errorf("outcomes %d %d %d, in flight %d", success, failure, cancelled, i.InFlight())
				}
			})
		})
	}
	t.Run("a stream where none was asked", func(t *testing.T) {
		r, _ := gatewaytest.StartOne(t, simulator.Step{Body: "data: " + gatewaytest.LastChunk + "\n\n" + simulator.DoneEvent})
		r.Chat(gatewaytest.PlainHi).FailsWith(t, http.StatusBadGateway, "api_error", "upstream_error", "")
	})
}

func TestUnreachableBackend(t *testing.T) {
	t.Parallel()
	gatewaytest.Both(t, func(t *testing.T, body string) {
		r := gatewaytest.Start(t, gatewaytest.ChatYAML(gatewaytest.Instance("m", simulator.DownURL)))
		answer := r.Chat(body)
		answer.FailsWith(t, http.StatusBadGateway, "api_error", "upstream_error", "")
		if strings.Contains(answer.Body, "127.0.0.1") {
			t.Errorf("the address is shown: %s", answer.Body)
		}
	})
	t.Run("a name that does not exist", func(t *testing.T) {
		r := gatewaytest.Start(t, gatewaytest.ChatYAML(gatewaytest.Instance("m", "http://no-such-host.invalid:1234"))+"limits: {connect-timeout: 2s}\n")
		answer := r.Chat(gatewaytest.PlainHi)
		if answer.Status != http.StatusBadGateway && answer.Status != http.StatusGatewayTimeout {
			t.Errorf("status %d: %s", answer.Status, answer.Body)
		}
		if strings.Contains(answer.Body, "no-such-host") {
			t.Errorf("the address is shown: %s", answer.Body)
		}
	})
}

func TestBackendThatIsTooSlow(t *testing.T) {
	for name, step := range map[string]simulator.Step{
		"no head":             {Hang: true},
		"late head":           {HeaderDelay: gatewaytest.Never},
		"silent in the body":  {Stop: simulator.StopStall, Body: gatewaytest.RawBody},
		"silent in the head":  {Raw: "HTTP/1.1 200 OK\r\n", Stop: simulator.StopStall},
		"silent in the first": {Raw: "H", Stop: simulator.StopStall},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			gatewaytest.Both(t, func(t *testing.T, body string) {
				b := gatewaytest.StartBackend(t, step)
				r := gatewaytest.Start(t, gatewaytest.PoolYAML(b)+gatewaytest.ShortTimeouts(step))
				begun := time.Now()
				r.Chat(body).FailsWith(t, http.StatusGatewayTimeout, "api_error", "upstream_timeout", "")
				if took := time.Since(begun); took < 250*time.Millisecond {
					t.Errorf("it took %s", took)
				}
				if err := b.WaitIdle(gatewaytest.Deadline(t)); err != nil {
					t.Errorf("the backend is still at it: %v", err)
				}
			})
		})
	}
}

// Waiting for a connection is waiting for the backend.
func TestBackendThatAcceptsNoConnections(t *testing.T) {
	t.Parallel()
	address := fullListener(t)
	gatewaytest.Both(t, func(t *testing.T, body string) {
		r := gatewaytest.Start(t, gatewaytest.ChatYAML(gatewaytest.Instance("m", "http://"+address))+"limits: {connect-timeout: 200ms}\n")
		r.Chat(body).FailsWith(t, http.StatusGatewayTimeout, "api_error", "upstream_timeout", "")
	})
	t.Run("goes to the sibling", func(t *testing.T) {
		b := gatewaytest.StartBackend(t)
		r := gatewaytest.Start(t, gatewaytest.ChatYAML(gatewaytest.Instance("m", "http://"+address, "timeouts: {connect: 200ms}"), gatewaytest.Instance("m", b.URL())))
		if answer := r.Chat(gatewaytest.PlainHi).Succeeds(t); answer.Header.Get("X-Router-Attempts") != "2" {
			t.Errorf("attempts %q", answer.Header.Get("X-Router-Attempts"))
		}
	})
}

// fullListener returns the address of a listener that takes no more connections:
// its queue is full and nobody empties it.
func fullListener(t *testing.T) string {
	t.Helper()
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = syscall.Close(fd) })
	if err := syscall.Bind(fd, &syscall.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Listen(fd, 0); err != nil {
		t.Fatal(err)
	}
	name, err := syscall.Getsockname(fd)
	if err != nil {
		t.Fatal(err)
	}
	address := fmt.Sprintf("127.0.0.1:%d", name.(*syscall.SockaddrInet4).Port)
	dialer := &net.Dialer{Timeout: 150 * time.Millisecond}
	for range 20 {
		conn, err := dialer.DialContext(gatewaytest.Deadline(t), "tcp", address)
		if err != nil {
			return address
		}
		t.Cleanup(func() { _ = conn.Close() })
	}
	t.Fatal("the queue of a listener that takes one connection is not full after twenty")
	return ""
}

// Whatever a backend says, it cannot make the gateway give away its secrets.
func TestSecretsNeverReachCallers(t *testing.T) {
	t.Parallel()
	const key, header = "sk-canary-0123456789abcdef", "header-canary-42"
	b := gatewaytest.StartBackend(t)
	host := strings.TrimPrefix(b.URL(), "http://")
	r := gatewaytest.Start(t, gatewaytest.ChatYAML(gatewaytest.Instance("m", b.URL()+"/secret-path/v1", "api-key: "+key, "headers: {X-Token: "+header+"}", "path: /p")))
	leak := "Incorrect API key provided: " + key + " for " + b.URL() + "/secret-path/v1 at " + host +
		" (" + header + "), sent Authorization: Bearer other-canary-77 to http://10.1.2.3:8080/x and 10.9.8.7, no route to 127.0.0.1"
	secrets := []string{key, header, host, b.URL(), "secret-path", "other-canary", "10.1.2.3", "10.9.8.7", "127.0.0.1"}
	steps := map[string]simulator.Step{
		"error inside a 200": {Body: simulator.ErrorObject(leak, "t", "c")},
		"redirect":           {Status: 302, Body: leak, Header: http.Header{"Location": {b.URL() + "/" + key}}},
		"garbage":            {Body: leak},
		"in headers":         {Status: 500, Header: http.Header{"X-Leak": {leak}, "Set-Cookie": {"k=" + key}, "Server": {key}}},
	}
	for _, status := range []int{400, 401, 403, 404, 422, 429, 500, 503} {
		steps[fmt.Sprint(status, " object")] = simulator.Step{Status: status, Body: simulator.ErrorObject(leak, key, key)}
		steps[fmt.Sprint(status, " text")] = simulator.Step{Status: status, Body: leak}
		steps[fmt.Sprint(status, " odd")] = simulator.Step{Status: status, Body: `{"` + key + `":"` + leak + `"}`}
	}
	for name, step := range steps {
		t.Run(name, func(t *testing.T) {
			gatewaytest.Both(t, func(t *testing.T, body string) {
				b.Script(step)
				answer := r.Chat(body)
				if answer.Status < 400 {
					t.Fatalf("status %d", answer.Status)
				}
				gatewaytest.ContainsNone(t, fmt.Sprint(answer.Header)+answer.Body, secrets...)
			})
		})
	}
	t.Run("error event", func(t *testing.T) {
		b.Script(simulator.Step{Body: "data: " + gatewaytest.FirstChunk + "\n\n" + simulator.ErrorEvent(leak, key, key)})
		answer := r.Chat(gatewaytest.StreamHi).Succeeds(t)
		if !strings.Contains(answer.Body, `data: {"error":{`) {
			t.Fatalf("no error event: %s", answer.Body)
		}
		gatewaytest.ContainsNone(t, answer.Body, secrets...)
	})
	t.Run("good answer", func(t *testing.T) {
		b.Script(simulator.Step{Body: gatewaytest.RawBody, Header: http.Header{"Set-Cookie": {"a=b"}, "Server": {"x"}, "X-Upstream": {key}, "X-Request-Id": {"theirs"}}})
		answer := r.Chat(gatewaytest.PlainHi).Succeeds(t)
		gatewaytest.ContainsNone(t, fmt.Sprint(answer.Header), key, "a=b", "theirs", "Server", "X-Upstream")
	})
	gatewaytest.ContainsNone(t, r.Logs.String(), key, header, "other-canary")
}

func TestLongTextOfABackendIsCut(t *testing.T) {
	t.Parallel()
	r, _ := gatewaytest.StartOne(t, simulator.Step{Status: 500, Body: simulator.ErrorText(strings.Repeat("é\n ", 10_000))})
	answer := r.Chat(gatewaytest.PlainHi)
	answer.FailsWith(t, 500, "api_error", "upstream_error", "")
	if len(answer.Body) > 2000 || strings.Contains(answer.Body, `\n`) {
		t.Errorf("%d bytes: %.300s", len(answer.Body), answer.Body)
	}
}
