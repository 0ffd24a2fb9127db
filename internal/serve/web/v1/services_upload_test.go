package v1_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/patchbay-ai/patchbay/internal/gateway/gatewaytest"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
	"github.com/patchbay-ai/patchbay/internal/testing/simulator"
)

// big is a recording that does not fit into the buffer for small files.
func big() gatewaytest.Part {
	return gatewaytest.Upload("file", "a.wav", "audio/wav", strings.Repeat("0123456789abcdef", 40_000))
}

// ownTemp gives the test a directory for temporary files, and at its end checks
// that nothing is left there, neither with a name nor without.
func ownTemp(t *testing.T) {
	t.Helper()
	dir := t.TempDir()
	t.Setenv("TMPDIR", dir)
	t.Cleanup(func() {
		gatewaytest.Eventually(t, "no temporary file is open", func() bool { return len(gatewaytest.OpenUploads(t, os.Getpid())) == 0 })
		if left, err := os.ReadDir(dir); err != nil || len(left) != 0 {
			t.Errorf("left behind: %v, %v", left, err)
		}
	})
}

// A second attempt sends the whole form again.
func TestFailoverOfUploads(t *testing.T) {
	ownTemp(t)
	for name, step := range map[string]simulator.Step{
		"500":                {Status: 500},
		"429":                {Status: 429},
		"reset":              {Reset: true},
		"no head in time":    {Hang: true},
		"error inside a 200": {Body: simulator.ErrorText("no")},
	} {
		t.Run(name, func(t *testing.T) {
			// A backend that hangs has the whole form first, on a busy machine too.
			patience := "timeouts: {first-byte: 1m}"
			if step.Hang {
				patience = "timeouts: {first-byte: 2s}"
			}
			a, b := gatewaytest.StartBackend(t, step), gatewaytest.StartBackend(t)
			r := gatewaytest.Start(t, gatewaytest.ServiceYAML("stt", gatewaytest.Instance("m", a.URL(), "upstream-model: one", patience), gatewaytest.Instance("m", b.URL(), "upstream-model: two")))
			answer := r.PostForm(gatewaytest.Transcriptions, big(), gatewaytest.Field("model", "m"), gatewaytest.Field("language", "de")).Succeeds(t)
			if answer.Header.Get("X-Router-Attempts") != "2" || !strings.Contains(answer.Body, "640000 bytes") {
				t.Errorf("after %s attempts: %s", answer.Header.Get("X-Router-Attempts"), answer.Body)
			}
			first, second := partsOf(t, gatewaytest.OnlyRequest(t, a)), partsOf(t, gatewaytest.OnlyRequest(t, b))
			for model, got := range map[string][]gatewaytest.Part{"one": first, "two": second} {
				if len(got) != 3 || got[0] != big() || got[1] != gatewaytest.Field("model", model) || got[2] != gatewaytest.Field("language", "de") {
					t.Errorf("the backend of %s got %.200q", model, got)
				}
			}
		})
	}
	t.Run("refused", func(t *testing.T) {
		b := gatewaytest.StartBackend(t)
		r := gatewaytest.Start(t, gatewaytest.ServiceYAML("stt", gatewaytest.Instance("m", simulator.DownURL), gatewaytest.Instance("m", b.URL())))
		r.PostForm(gatewaytest.Transcriptions, big(), gatewaytest.Field("model", "m")).Succeeds(t)
	})
	t.Run("answered before the upload was read", func(t *testing.T) {
		b := gatewaytest.StartBackend(t)
		r := gatewaytest.Start(t, gatewaytest.ServiceYAML("stt", gatewaytest.Instance("m", hastyBackend(t)), gatewaytest.Instance("m", b.URL())))
		huge := gatewaytest.Upload("file", "a.wav", "audio/wav", strings.Repeat("x", 6<<20))
		answer := r.PostForm(gatewaytest.Transcriptions, huge, gatewaytest.Field("model", "m")).Succeeds(t)
		if answer.Header.Get("X-Router-Attempts") != "2" || !strings.Contains(answer.Body, fmt.Sprint(6<<20)) {
			t.Errorf("after %s attempts: %s", answer.Header.Get("X-Router-Attempts"), answer.Body)
		}
	})
	t.Run("never on a refusal", func(t *testing.T) {
		a, b := gatewaytest.StartBackend(t, simulator.Step{Status: 413}), gatewaytest.StartBackend(t)
		r := gatewaytest.Start(t, gatewaytest.ServiceYAML("stt", gatewaytest.Instance("m", a.URL()), gatewaytest.Instance("m", b.URL())))
		r.PostForm(gatewaytest.Transcriptions, big(), gatewaytest.Field("model", "m")).FailsWith(t, 413, gatewaytest.InvalidRequest, "upstream_error", "")
		if b.Stats().Arrived != 0 {
			t.Error("the sibling was tried")
		}
	})
}

// hastyBackend is a backend that answers 503 as soon as it has a head, and reads
// nothing of the body.
func hastyBackend(t *testing.T) string {
	t.Helper()
	listener, err := new(net.ListenConfig).Listen(gatewaytest.Deadline(t), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			if request, err := http.ReadRequest(bufio.NewReaderSize(conn, 16)); err == nil && request.Body != nil {
				_, _ = io.WriteString(conn, "HTTP/1.1 503 Service Unavailable\r\nConnection: close\r\nContent-Length: 2\r\n\r\n{}")
			}
			_ = conn.Close()
		}
	}()
	t.Cleanup(func() {
		_ = listener.Close()
		<-done
	})
	return "http://" + listener.Addr().String()
}

// A client that leaves while it uploads costs nobody anything.
func TestClientThatLeavesInAnUpload(t *testing.T) {
	ownTemp(t)
	r, b := gatewaytest.StartService(t)
	var form bytes.Buffer
	contentType := gatewaytest.WriteForm(t, &form, gatewaytest.Field("model", "m"), big())
	for name, head := range map[string]string{
		"with a length": fmt.Sprintf("Content-Length: %d\r\n\r\n", form.Len()),
		"chunked":       fmt.Sprintf("Transfer-Encoding: chunked\r\n\r\n%x\r\n", form.Len()),
	} {
		t.Run(name, func(t *testing.T) {
			conn := r.DialRaw()
			_, _ = io.WriteString(conn, "POST "+gatewaytest.Transcriptions+" HTTP/1.1\r\nHost: x\r\nContent-Type: "+contentType+"\r\n"+head)
			_, _ = conn.Write(form.Bytes()[:form.Len()/2])
			gatewaytest.Eventually(t, "the upload is on disk", func() bool {
				return len(gatewaytest.OpenUploads(t, os.Getpid())) == 1 || len(gatewaytest.OpenUploads(t, os.Getpid())) == 0 && !gatewaytest.HasProc()
			})
			_ = conn.Close()
			gatewaytest.Eventually(t, "the upload is given up", func() bool { return len(gatewaytest.OpenUploads(t, os.Getpid())) == 0 })
		})
	}
	if n := b.Stats().Arrived; n != 0 {
		t.Errorf("the backend got %d requests", n)
	}
	r.PostForm(gatewaytest.Transcriptions, big(), gatewaytest.Field("model", "m")).Succeeds(t)
}

// A client that leaves while the backend listens takes the call with it,
// however its form was sent.
func TestClientThatLeavesAfterAnUpload(t *testing.T) {
	ownTemp(t)
	for name, wrap := range map[string]func(io.Reader) io.Reader{
		"with a length": func(body io.Reader) io.Reader { return body },
		"chunked":       func(body io.Reader) io.Reader { return struct{ io.Reader }{body} },
		"with more behind the form": func(body io.Reader) io.Reader {
			return io.MultiReader(body, strings.NewReader(strings.Repeat("e", 100<<10)))
		},
	} {
		t.Run(name, func(t *testing.T) {
			r, b := gatewaytest.StartService(t, simulator.Step{Hang: true})
			var form bytes.Buffer
			contentType := gatewaytest.WriteForm(t, &form, gatewaytest.Field("model", "m"), big())
			ctx, cancel := context.WithCancel(gatewaytest.Deadline(t))
			defer cancel()
			request, err := http.NewRequestWithContext(ctx, http.MethodPost, r.URL+gatewaytest.Transcriptions, wrap(bytes.NewReader(form.Bytes())))
			if err != nil {
				t.Fatal(err)
			}
			request.Header.Set("Content-Type", contentType)
			ended := make(chan error, 1)
			go func() {
				response, err := r.Client.Do(request)
				if err == nil {
					_ = response.Body.Close()
				}
				ended <- err
			}()
			if err := b.WaitRequests(ctx, 1); err != nil {
				t.Fatal(err)
			}
			cancel()
			if err := <-ended; !errors.Is(err, context.Canceled) {
				t.Errorf("the client got %v", err)
			}
			if err := b.WaitCancelled(gatewaytest.Deadline(t), 1); err != nil {
				t.Error(err)
			}
			i := serving(r, schema.STT)[0]
			gatewaytest.Eventually(t, "the call is settled", func() bool { return i.InFlight() == 0 })
			if success, failure, cancelled := gatewaytest.Outcomes(i); success != 0 || failure != 0 || cancelled != 1 {
				t.Errorf("outcomes %d %d %d, want one cancelled", success, failure, cancelled)
			}
		})
	}
}

// A form has bounds, and going beyond them leaves nothing behind.
func TestFormLimits(t *testing.T) {
	ownTemp(t)
	b := gatewaytest.StartBackend(t)
	r := gatewaytest.Start(t, gatewaytest.EveryService(b)+"limits: {multipart-body: 2MiB}\n")
	many := func(n int) []gatewaytest.Part {
		parts := []gatewaytest.Part{gatewaytest.Field("model", "m"), big()}
		for len(parts) < n {
			parts = append(parts, gatewaytest.Field("x", "y"))
		}
		return parts
	}
	t.Run("parts", func(t *testing.T) {
		r.PostForm(gatewaytest.Transcriptions, many(64)...).Succeeds(t)
		fault := r.PostForm(gatewaytest.Transcriptions, many(65)...).FailsWith(t, 400, gatewaytest.InvalidRequest, "invalid_body", "")
		if !strings.Contains(fault.Message, "too many parts") {
			t.Error(fault.Message)
		}
	})
	t.Run("fields", func(t *testing.T) {
		long := gatewaytest.Field("prompt", strings.Repeat("x", 1<<20))
		r.PostForm(gatewaytest.Transcriptions, gatewaytest.Field("model", "m"), gatewaytest.Recording(), gatewaytest.Field("prompt", strings.Repeat("x", 1<<20-1))).Succeeds(t) // with the model's one letter
		fault := r.PostForm(gatewaytest.Transcriptions, gatewaytest.Field("model", "m"), gatewaytest.Recording(), long).FailsWith(t, 400, gatewaytest.InvalidRequest, "invalid_body", "")
		if !strings.Contains(fault.Message, "too long") {
			t.Error(fault.Message)
		}
		half := gatewaytest.Field("prompt", long.Value[:1<<19])
		r.PostForm(gatewaytest.Transcriptions, big(), half, half, gatewaytest.Field("model", "m")).FailsWith(t, 400, gatewaytest.InvalidRequest, "invalid_body", "")
	})
	t.Run("names", func(t *testing.T) {
		for _, odd := range []gatewaytest.Part{
			gatewaytest.Field(strings.Repeat("n", 2000), "x"), gatewaytest.Upload("file", strings.Repeat("f", 2000), "", "x"), gatewaytest.Upload("file", "f", "a/"+strings.Repeat("t", 2000), "x"),
		} {
			r.PostForm(gatewaytest.Transcriptions, gatewaytest.Field("model", "m"), gatewaytest.Recording(), odd).FailsWith(t, 400, gatewaytest.InvalidRequest, "invalid_body", "")
		}
	})
	t.Run("body", func(t *testing.T) {
		huge := gatewaytest.Upload("file", "a.wav", "audio/wav", strings.Repeat("x", 3<<20))
		r.PostForm(gatewaytest.Transcriptions, gatewaytest.Field("model", "m"), huge).FailsWith(t, 413, gatewaytest.InvalidRequest, "request_too_large", "")
	})
	t.Run("body that says so", func(t *testing.T) {
		// Only the head is sent: who waits for the body waits for ever.
		answer := r.SendRaw("POST " + gatewaytest.Transcriptions + " HTTP/1.1\r\nHost: x\r\nContent-Type: multipart/form-data; boundary=x\r\nContent-Length: 300000000\r\n\r\n")
		answer.FailsWith(t, 413, gatewaytest.InvalidRequest, "request_too_large", "")
		if !answer.Closes {
			t.Error("the connection stays open")
		}
	})
	t.Run("body in chunks", func(t *testing.T) {
		conn := r.DialRaw()
		start := "--x\r\nContent-Disposition: form-data; name=\"file\"; filename=\"endless.wav\"\r\n\r\n"
		_, _ = fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: x\r\nContent-Type: multipart/form-data; boundary=x\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n",
			gatewaytest.Transcriptions, len(start), start)
		chunk := fmt.Sprintf("%x\r\n%s\r\n", 64<<10, strings.Repeat("z", 64<<10))
		go func() {
			for { // it never ends by itself
				if _, err := io.WriteString(conn, chunk); err != nil {
					return
				}
			}
		}()
		answer := gatewaytest.ReadRaw(t, bufio.NewReader(conn), http.MethodPost)
		answer.FailsWith(t, 413, gatewaytest.InvalidRequest, "request_too_large", "")
		_ = conn.Close()
	})
	t.Run("what follows the form", func(t *testing.T) {
		var body bytes.Buffer
		contentType := gatewaytest.WriteForm(t, &body, gatewaytest.Field("model", "m"), gatewaytest.Recording())
		r.Do(http.MethodPost, gatewaytest.Transcriptions, body.String()+strings.Repeat("e", 1<<20), "Content-Type", contentType).Succeeds(t)
		request := r.Request(gatewaytest.Deadline(t), http.MethodPost, gatewaytest.Transcriptions, body.String()+strings.Repeat("e", 3<<20), "Content-Type", contentType)
		request.Body, request.ContentLength = struct{ io.ReadCloser }{request.Body}, -1
		response, err := r.Client.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		gatewaytest.ReadReply(response).FailsWith(t, 413, gatewaytest.InvalidRequest, "request_too_large", "")
	})
}
