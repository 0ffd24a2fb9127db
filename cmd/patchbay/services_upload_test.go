package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/patchbay-ai/patchbay/internal/gateway/gatewaytest"
)

// A recording of 200 MB passes through the program with hardly any memory of
// its own, and leaves no file.
func TestLargeUpload(t *testing.T) {
	if testing.Short() {
		t.Skip("uploads 200 MB")
	}
	if !gatewaytest.HasProc() {
		t.Skip("memory is read from /proc, which this system does not have")
	}
	const size, most = 200 << 20, 16 << 20
	b := gatewaytest.StartBackend(t)
	dir := t.TempDir()
	file := filepath.Join(dir, "patchbay.yaml")
	gatewaytest.WriteFile(t, file, gatewaytest.ServiceYAML("stt", gatewaytest.Instance("m", b.URL())))
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
	gatewaytest.Eventually(t, "no upload is open", func() bool { return len(gatewaytest.OpenUploads(t, pid)) == 0 })
	if left, err := os.ReadDir(temp); err != nil || len(left) != 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

func mebibytes(n int64) float64 { return float64(n) / (1 << 20) }

// startPatiently starts the program for a test that takes longer than others.
func startPatiently(t *testing.T, temp string, args ...string) *child {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 10*gatewaytest.Timeout)
	c := &child{t: t, stdout: new(gatewaytest.Buffer), stderr: new(gatewaytest.Buffer), exited: make(chan struct{})}
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
	contentType := gatewaytest.WriteForm(t, &head, gatewaytest.Upload("file", "long.wav", "audio/wav", mark), gatewaytest.Field("model", "m"))
	before, after, _ := strings.Cut(head.String(), mark)
	body := io.MultiReader(strings.NewReader(before), io.LimitReader(noise{}, size), strings.NewReader(after))
	ctx, cancel := context.WithTimeout(context.Background(), 10*gatewaytest.Timeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, url+gatewaytest.Transcriptions, body)
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
	answer := gatewaytest.ReadReply(response).Succeeds(t)
	if !strings.Contains(answer.Body, fmt.Sprintf("%d bytes", size)) {
		t.Errorf("answer %s", answer.Body)
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
	status := string(gatewaytest.ReadFile(t, fmt.Sprintf("/proc/%d/status", c.command.Process.Pid)))
	for line := range strings.Lines(status) {
		var kib int64
		if _, err := fmt.Sscanf(line, name+": %d kB", &kib); err == nil {
			return kib << 10
		}
	}
	t.Fatalf("no %s in %s", name, status)
	return 0
}
