package main

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
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/patchbay-ai/patchbay/internal/schema"
	"github.com/patchbay-ai/patchbay/internal/simulator"
)

const transcriptions = "/v1/audio/transcriptions"

// big is a recording that does not fit into the buffer for small files.
func big() part {
	return upload("file", "a.wav", "audio/wav", strings.Repeat("0123456789abcdef", 40_000))
}

// ownTemp gives the test a directory for temporary files, and at its end checks
// that nothing is left there, neither with a name nor without.
func ownTemp(t *testing.T) {
	t.Helper()
	dir := t.TempDir()
	t.Setenv("TMPDIR", dir)
	t.Cleanup(func() {
		eventually(t, "no temporary file is open", func() bool { return len(openUploads(t, os.Getpid())) == 0 })
		if left, err := os.ReadDir(dir); err != nil || len(left) != 0 {
			t.Errorf("left behind: %v, %v", left, err)
		}
	})
}

// openUploads lists the temporary files that a process holds open.
func openUploads(t *testing.T, pid int) []string {
	t.Helper()
	dir := filepath.Join("/proc", strconv.Itoa(pid), "fd")
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil // no such thing on this system
	}
	var found []string
	for _, entry := range entries {
		if target, err := os.Readlink(filepath.Join(dir, entry.Name())); err == nil && strings.Contains(target, "patchbay-upload-") {
			found = append(found, target)
		}
	}
	return found
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
			a, b := startBackend(t, step), startBackend(t)
			r := startGateway(t, serviceYAML("stt", instance("m", a.URL(), "upstream-model: one", impatient), instance("m", b.URL(), "upstream-model: two")))
			answer := r.postForm(transcriptions, big(), field("model", "m"), field("language", "de")).succeeds(t)
			if answer.header.Get("X-Router-Attempts") != "2" || !strings.Contains(answer.body, "640000 bytes") {
				t.Errorf("after %s attempts: %s", answer.header.Get("X-Router-Attempts"), answer.body)
			}
			first, second := partsOf(t, onlyRequest(t, a)), partsOf(t, onlyRequest(t, b))
			for model, got := range map[string][]part{"one": first, "two": second} {
				if len(got) != 3 || got[0] != big() || got[1] != field("model", model) || got[2] != field("language", "de") {
					t.Errorf("the backend of %s got %.200q", model, got)
				}
			}
		})
	}
	t.Run("refused", func(t *testing.T) {
		b := startBackend(t)
		r := startGateway(t, serviceYAML("stt", instance("m", simulator.DownURL), instance("m", b.URL())))
		r.postForm(transcriptions, big(), field("model", "m")).succeeds(t)
	})
	t.Run("answered before the upload was read", func(t *testing.T) {
		b := startBackend(t)
		r := startGateway(t, serviceYAML("stt", instance("m", hastyBackend(t)), instance("m", b.URL())))
		huge := upload("file", "a.wav", "audio/wav", strings.Repeat("x", 6<<20))
		answer := r.postForm(transcriptions, huge, field("model", "m")).succeeds(t)
		if answer.header.Get("X-Router-Attempts") != "2" || !strings.Contains(answer.body, fmt.Sprint(6<<20)) {
			t.Errorf("after %s attempts: %s", answer.header.Get("X-Router-Attempts"), answer.body)
		}
	})
	t.Run("never on a refusal", func(t *testing.T) {
		a, b := startBackend(t, simulator.Step{Status: 413}), startBackend(t)
		r := startGateway(t, serviceYAML("stt", instance("m", a.URL()), instance("m", b.URL())))
		r.postForm(transcriptions, big(), field("model", "m")).failsWith(t, 413, invalidRequest, "upstream_error", "")
		if b.Stats().Arrived != 0 {
			t.Error("the sibling was tried")
		}
	})
}

// hastyBackend is a backend that answers 503 as soon as it has a head, and reads
// nothing of the body.
func hastyBackend(t *testing.T) string {
	t.Helper()
	listener, err := new(net.ListenConfig).Listen(deadline(t), "tcp", "127.0.0.1:0")
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
	r, b := startService(t)
	var form bytes.Buffer
	contentType := writeForm(t, &form, field("model", "m"), big())
	for name, head := range map[string]string{
		"with a length": fmt.Sprintf("Content-Length: %d\r\n\r\n", form.Len()),
		"chunked":       fmt.Sprintf("Transfer-Encoding: chunked\r\n\r\n%x\r\n", form.Len()),
	} {
		t.Run(name, func(t *testing.T) {
			conn := r.dialRaw()
			_, _ = io.WriteString(conn, "POST "+transcriptions+" HTTP/1.1\r\nHost: x\r\nContent-Type: "+contentType+"\r\n"+head)
			_, _ = conn.Write(form.Bytes()[:form.Len()/2])
			eventually(t, "the upload is on disk", func() bool {
				return len(openUploads(t, os.Getpid())) == 1 || len(openUploads(t, os.Getpid())) == 0 && !hasProc()
			})
			_ = conn.Close()
			eventually(t, "the upload is given up", func() bool { return len(openUploads(t, os.Getpid())) == 0 })
		})
	}
	if n := b.Stats().Arrived; n != 0 {
		t.Errorf("the backend got %d requests", n)
	}
	r.postForm(transcriptions, big(), field("model", "m")).succeeds(t)
}

func hasProc() bool {
	_, err := os.Stat("/proc/self/fd")
	return err == nil
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
			r, b := startService(t, simulator.Step{Hang: true})
			var form bytes.Buffer
			contentType := writeForm(t, &form, field("model", "m"), big())
			ctx, cancel := context.WithCancel(deadline(t))
			defer cancel()
			request, err := http.NewRequestWithContext(ctx, http.MethodPost, r.url+transcriptions, wrap(bytes.NewReader(form.Bytes())))
			if err != nil {
				t.Fatal(err)
			}
			request.Header.Set("Content-Type", contentType)
			ended := make(chan error, 1)
			go func() {
				response, err := r.client.Do(request)
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
			if err := b.WaitCancelled(deadline(t), 1); err != nil {
				t.Error(err)
			}
			i := r.serving(schema.STT)[0]
			eventually(t, "the call is settled", func() bool { return i.InFlight() == 0 })
			if success, failure, cancelled := outcomes(i); success != 0 || failure != 0 || cancelled != 1 {
				t.Errorf("outcomes %d %d %d, want one cancelled", success, failure, cancelled)
			}
		})
	}
}

// A form has bounds, and going beyond them leaves nothing behind.
func TestFormLimits(t *testing.T) {
	ownTemp(t)
	b := startBackend(t)
	r := startGateway(t, everyService(b)+"limits: {multipart-body: 2MiB}\n")
	many := func(n int) []part {
		parts := []part{field("model", "m"), big()}
		for len(parts) < n {
			parts = append(parts, field("x", "y"))
		}
		return parts
	}
	t.Run("parts", func(t *testing.T) {
		r.postForm(transcriptions, many(64)...).succeeds(t)
		fault := r.postForm(transcriptions, many(65)...).failsWith(t, 400, invalidRequest, "invalid_body", "")
		if !strings.Contains(fault.Message, "too many parts") {
			t.Error(fault.Message)
		}
	})
	t.Run("fields", func(t *testing.T) {
		long := field("prompt", strings.Repeat("x", 1<<20))
		r.postForm(transcriptions, field("model", "m"), recording(), field("prompt", strings.Repeat("x", 1<<20-1))).succeeds(t) // with the model's one letter
		fault := r.postForm(transcriptions, field("model", "m"), recording(), long).failsWith(t, 400, invalidRequest, "invalid_body", "")
		if !strings.Contains(fault.Message, "too long") {
			t.Error(fault.Message)
		}
		half := field("prompt", long.value[:1<<19])
		r.postForm(transcriptions, big(), half, half, field("model", "m")).failsWith(t, 400, invalidRequest, "invalid_body", "")
	})
	t.Run("names", func(t *testing.T) {
		for _, odd := range []part{
			field(strings.Repeat("n", 2000), "x"), upload("file", strings.Repeat("f", 2000), "", "x"), upload("file", "f", "a/"+strings.Repeat("t", 2000), "x"),
		} {
			r.postForm(transcriptions, field("model", "m"), recording(), odd).failsWith(t, 400, invalidRequest, "invalid_body", "")
		}
	})
	t.Run("body", func(t *testing.T) {
		huge := upload("file", "a.wav", "audio/wav", strings.Repeat("x", 3<<20))
		r.postForm(transcriptions, field("model", "m"), huge).failsWith(t, 413, invalidRequest, "request_too_large", "")
	})
	t.Run("body that says so", func(t *testing.T) {
		// Only the head is sent: who waits for the body waits for ever.
		answer := r.sendRaw("POST " + transcriptions + " HTTP/1.1\r\nHost: x\r\nContent-Type: multipart/form-data; boundary=x\r\nContent-Length: 300000000\r\n\r\n")
		answer.failsWith(t, 413, invalidRequest, "request_too_large", "")
		if !answer.closes {
			t.Error("the connection stays open")
		}
	})
	t.Run("body in chunks", func(t *testing.T) {
		conn := r.dialRaw()
		start := "--x\r\nContent-Disposition: form-data; name=\"file\"; filename=\"endless.wav\"\r\n\r\n"
		_, _ = fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: x\r\nContent-Type: multipart/form-data; boundary=x\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n",
			transcriptions, len(start), start)
		chunk := fmt.Sprintf("%x\r\n%s\r\n", 64<<10, strings.Repeat("z", 64<<10))
		go func() {
			for { // it never ends by itself
				if _, err := io.WriteString(conn, chunk); err != nil {
					return
				}
			}
		}()
		answer := readRaw(t, bufio.NewReader(conn), http.MethodPost)
		answer.failsWith(t, 413, invalidRequest, "request_too_large", "")
		_ = conn.Close()
	})
	t.Run("what follows the form", func(t *testing.T) {
		var body bytes.Buffer
		contentType := writeForm(t, &body, field("model", "m"), recording())
		r.do(http.MethodPost, transcriptions, body.String()+strings.Repeat("e", 1<<20), "Content-Type", contentType).succeeds(t)
		request := r.request(deadline(t), http.MethodPost, transcriptions, body.String()+strings.Repeat("e", 3<<20), "Content-Type", contentType)
		request.Body, request.ContentLength = struct{ io.ReadCloser }{request.Body}, -1
		response, err := r.client.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		drain(response).failsWith(t, 413, invalidRequest, "request_too_large", "")
	})
}

// A recording of 200 MB passes through the program with hardly any memory of
// its own, and leaves no file.
func TestLargeUpload(t *testing.T) {
	if testing.Short() {
		t.Skip("uploads 200 MB")
	}
	if !hasProc() {
		t.Skip("memory is read from /proc, which this system does not have")
	}
	const size, most = 200 << 20, 16 << 20
	b := startBackend(t)
	dir := t.TempDir()
	file := filepath.Join(dir, "patchbay.yaml")
	mustWrite(t, file, serviceYAML("stt", instance("m", b.URL())))
	temp := filepath.Join(dir, "tmp")
	if err := os.Mkdir(temp, 0o700); err != nil {
		t.Fatal(err)
	}
	c := startPatiently(t, temp, "serve", "--listen", "127.0.0.1:0", "--config", file, "--data-dir", filepath.Join(dir, "data"))
	c.waitFor(`"msg":"listening"`)

	sendRecording(t, c.url(), 1<<20) // what the first upload of all costs is not what one costs
	before := memoryOf(t, c, "VmRSS")
	took := sendRecording(t, c.url(), size)
	peak := memoryOf(t, c, "VmHWM")
	t.Logf("200 MiB in %s; peak of the resident memory %.1f MiB, %.1f MiB more than before (resident now %.1f MiB)",
		took.Round(time.Millisecond), mebibytes(peak), mebibytes(peak-before), mebibytes(memoryOf(t, c, "VmRSS")))
	if peak-before >= most {
		t.Errorf("the peak grew by %.1f MiB", mebibytes(peak-before))
	}
	pid := c.command.Process.Pid
	eventually(t, "no upload is open", func() bool { return len(openUploads(t, pid)) == 0 })
	if left, err := os.ReadDir(temp); err != nil || len(left) != 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

func mebibytes(n int64) float64 { return float64(n) / (1 << 20) }

// startPatiently starts the program for a test that takes longer than others.
func startPatiently(t *testing.T, temp string, args ...string) *child {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 10*within)
	c := &child{t: t, stdout: new(lockedBuffer), stderr: new(lockedBuffer), exited: make(chan struct{})}
	c.command = exec.CommandContext(ctx, binary, args...)
	c.command.Dir = temp
	c.command.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + temp, "TMPDIR=" + temp}
	c.command.Stdout, c.command.Stderr = c.stdout, c.stderr
	if err := c.command.Start(); err != nil {
		cancel()
		t.Fatal(err)
	}
	go func() {
		defer close(c.exited)
		_ = c.command.Wait()
	}()
	t.Cleanup(func() {
		_ = c.command.Process.Signal(syscall.SIGKILL)
		<-c.exited
		cancel()
		if t.Failed() {
			t.Logf("the process said:\n%s", c.stderr.String())
		}
	})
	return c
}

// sendRecording uploads a recording that is made while it is sent, and checks
// that the backend got all of it.
func sendRecording(t *testing.T, url string, size int64) time.Duration {
	t.Helper()
	var head bytes.Buffer
	const mark = "here-comes-the-recording"
	contentType := writeForm(t, &head, upload("file", "long.wav", "audio/wav", mark), field("model", "m"))
	before, after, _ := strings.Cut(head.String(), mark)
	body := io.MultiReader(strings.NewReader(before), io.LimitReader(noise{}, size), strings.NewReader(after))
	ctx, cancel := context.WithTimeout(context.Background(), 10*within)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, url+transcriptions, body)
	if err != nil {
		t.Fatal(err)
	}
	request.ContentLength = int64(len(before)) + size + int64(len(after))
	request.Header.Set("Content-Type", contentType)
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	begun := time.Now()
	response, err := client.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	answer := drain(response).succeeds(t)
	if !strings.Contains(answer.body, fmt.Sprintf("%d bytes", size)) {
		t.Errorf("answer %s", answer.body)
	}
	return time.Since(begun)
}

// noise is a recording without end.
type noise struct{}

func (noise) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = byte(i * 7)
	}
	return len(p), nil
}

// memoryOf reads a number of bytes from what the system knows of a process.
func memoryOf(t *testing.T, c *child, name string) int64 {
	t.Helper()
	status := string(mustRead(t, fmt.Sprintf("/proc/%d/status", c.command.Process.Pid)))
	for line := range strings.Lines(status) {
		var kib int64
		if _, err := fmt.Sscanf(line, name+": %d kB", &kib); err == nil {
			return kib << 10
		}
	}
	t.Fatalf("no %s in %s", name, status)
	return 0
}
