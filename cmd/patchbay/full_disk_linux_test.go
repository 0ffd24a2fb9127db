package main

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/patchbay-ai/patchbay/internal/gateway/gatewaytest"
)

// smallDisk returns a directory with so many bytes of space, and what takes and frees all that
// is left of it.
func smallDisk(t *testing.T, size int) (dir string, fill, free func()) {
	t.Helper()
	dir = t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, fmt.Sprintf("size=%d", size)); err != nil {
		t.Skipf("a file system cannot be mounted here: %v", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, syscall.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	filler := filepath.Join(dir, "filler")
	fill = func() {
		file, err := os.Create(filler)
		if err != nil {
			t.Fatal(err)
		}
		defer file.Close()
		for page := make([]byte, 4096); err == nil; {
			_, err = file.Write(page)
		}
	}
	return dir, fill, func() {
		if err := os.Remove(filler); err != nil {
			t.Error(err)
		}
	}
}

func sendTo(t *testing.T, c *child, method, path, contentType, body string) (status int, reply string) {
	t.Helper()
	request, err := http.NewRequestWithContext(gatewaytest.Deadline(t), method, c.url()+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Content-Type", contentType)
	response, err := http.DefaultClient.Do(request) //nolint:forbidigo // a test's client
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, string(text)
}

func uploadTo(t *testing.T, c *child, line string) (status int, reply string) {
	t.Helper()
	var form bytes.Buffer
	contentType := gatewaytest.WriteForm(t, &form, gatewaytest.Field("purpose", "batch"), gatewaytest.Upload("file", "lines.jsonl", "application/jsonl", line+"\n"))
	return sendTo(t, c, http.MethodPost, "/v1/files", contentType, form.String())
}

// Whoever uploads as much as the gateway takes leaves enough of the disk for versions, keys and
// the ledger.
func TestUploadsLeaveSpaceForTheGateway(t *testing.T) {
	t.Parallel()
	t.Cleanup(http.DefaultClient.CloseIdleConnections) //nolint:forbidigo // a test's client
	dir, _, _ := smallDisk(t, 24<<20)
	b := gatewaytest.StartBackend(t)
	c := serving(t,
		"--data-dir", filepath.Join(dir, "data"), "--set", "quota.enabled=true", "--set", "quota.fail-open=false", "--set", "log.access=false", "--set", "batches.enabled=true",
		"--set", "files.max-bytes-per-key=1GiB", "--set", "files.max-bytes=1GiB", "--set", "services.chat.instances=[{name: m, base-url: '"+b.URL()+"'}]")
	uploads := 0
	for size := 1 << 20; size > 1; size /= 2 {
		status, reply := http.StatusOK, ""
		for ; status == http.StatusOK; uploads++ {
			status, reply = uploadTo(t, c, strings.Repeat("x", size-1))
		}
		if status != http.StatusInsufficientStorage {
			t.Fatalf("%d %s", status, reply)
		}
	}
	if uploads < 20 {
		t.Errorf("%d uploads fill the disk", uploads)
	}
	for _, change := range []struct {
		method, path, body string
		want               int
	}{
		{http.MethodPut, gatewaytest.TypesPath + "chat", `{"loadBalancer":"random"}`, http.StatusOK},
		{http.MethodPost, "/api/auth/keys", `{"id":"new"}`, http.StatusCreated},
		{http.MethodPost, "/v1/chat/completions", gatewaytest.PlainHi, http.StatusOK},
	} {
		if status, reply := sendTo(t, c, change.method, change.path, "application/json", change.body); status != change.want {
			t.Errorf("%s: %d %s", change.path, status, reply)
		}
	}
	if status, reply := sendTo(t, c, http.MethodGet, "/actuator/health", "", ""); status != http.StatusOK || !strings.Contains(reply, `"files":{"status":"DEGRADED"`) {
		t.Errorf("%d %s", status, reply)
	}
}

// A gateway whose disk is full says so to whoever wants something saved, changes nothing, and
// answers no request that it cannot count. What it acknowledged is there after it was killed,
// and it goes on when there is space again.
func TestAFullDisk(t *testing.T) {
	t.Parallel()
	t.Cleanup(http.DefaultClient.CloseIdleConnections) //nolint:forbidigo // a test's client
	dir, fill, free := smallDisk(t, 4<<20)
	b := gatewaytest.StartBackend(t)
	args := []string{
		"--data-dir", filepath.Join(dir, "data"), "--set", "quota.enabled=true", "--set", "quota.fail-open=false", "--set", "quota.flush-interval-seconds=3600", "--set", "log.access=false", "--set", "batches.enabled=true",
		"--set", "services.chat.instances=[{name: m, base-url: '" + b.URL() + "'}]",
	}
	c := serving(t, args...)
	send := func(method, path, contentType, body string) (status int, reply string) {
		t.Helper()
		return sendTo(t, c, method, path, contentType, body)
	}
	upload := func(line string) (status int, reply string) {
		t.Helper()
		return uploadTo(t, c, line)
	}
	const line = `{"custom_id":"a","method":"POST","url":"/v1/chat/completions","body":` + gatewaytest.PlainHi + `}`
	status, reply := upload(line)
	if status != http.StatusOK {
		t.Fatalf("%d %s", status, reply)
	}
	batch := `{"input_file_id":"` + gatewaytest.DecodeObject(t, reply)["id"].(string) + `","endpoint":"/v1/chat/completions","completion_window":"24h"}`

	// The first flush makes the tables of the database, and one that fails gives space back.
	gatewaytest.Eventually(t, "the ledger has its database", func() bool {
		_, metrics := send(http.MethodGet, "/metrics", "", "")
		_, value, _ := strings.Cut(metrics, "\nmodel_router_quota_last_flush_seconds ")
		return value != "" && !strings.HasPrefix(value, "0\n")
	})
	fill()
	for name, refused := range map[string]struct {
		method, path, body string
		status             int
		want               string
	}{
		"a version": {http.MethodPut, gatewaytest.TypesPath + "chat", `{"loadBalancer":"random"}`, http.StatusServiceUnavailable, "the disk of the gateway has no space left; nothing was changed"},
		"a key":     {http.MethodPost, "/api/auth/keys", `{"id":"new"}`, http.StatusServiceUnavailable, "the disk of the gateway has no space left; nothing was changed"},
		"a batch":   {http.MethodPost, "/v1/batches", batch, http.StatusInsufficientStorage, `"code":"storage_full"`},
	} {
		if status, reply := send(refused.method, refused.path, "application/json", refused.body); status != refused.status || !strings.Contains(reply, refused.want) {
			t.Errorf("%s: %d %s", name, status, reply)
		}
	}
	if status, reply := upload(line + strings.Repeat("\n"+line, 100)); status != http.StatusInsufficientStorage || !strings.Contains(reply, `"code":"storage_full"`) {
		t.Errorf("an upload: %d %s", status, reply)
	}
	answered := 0
	for {
		status, reply := send(http.MethodPost, "/v1/chat/completions", "application/json", gatewaytest.PlainHi)
		if status == http.StatusOK {
			answered++
			continue
		}
		if status != http.StatusServiceUnavailable || !strings.Contains(reply, `"code":"quota_ledger_unavailable"`) {
			t.Errorf("%d %s", status, reply)
		}
		break
	}
	if _, reply := send(http.MethodGet, "/actuator/health", "", ""); !strings.Contains(reply, `"diskSpace":{"status":"DOWN"`) || !strings.Contains(reply, "no space left on device") {
		t.Errorf("%s", reply)
	}
	c.kill()

	free()
	c = serving(t, args...)
	if _, reply := send(http.MethodGet, gatewaytest.TypesPath+"chat", "", ""); !strings.Contains(reply, "round_robin") {
		t.Errorf("%s", reply)
	}
	counted := func() int {
		_, reply := send(http.MethodGet, gatewaytest.LongAgo, "", "")
		requests := 0
		for _, entry := range gatewaytest.DecodeObject(t, reply)["data"].([]any) {
			requests += int(entry.(map[string]any)["requestCount"].(float64))
		}
		return requests
	}
	if got := counted(); got != answered {
		t.Errorf("the ledger counts %d requests, and %d were answered", got, answered)
	}
	if status, reply := send(http.MethodPost, "/v1/batches", "application/json", batch); status != http.StatusOK {
		t.Errorf("%d %s", status, reply)
	}
	gatewaytest.Eventually(t, "the line of the batch is counted", func() bool { return counted() == answered+1 })

	// It goes on without a new start, too.
	fill()
	gatewaytest.Eventually(t, "requests are refused", func() bool {
		status, _ := send(http.MethodPost, "/v1/chat/completions", "application/json", gatewaytest.PlainHi)
		return status == http.StatusServiceUnavailable
	})
	free()
	gatewaytest.Eventually(t, "requests are answered", func() bool {
		status, _ := send(http.MethodPost, "/v1/chat/completions", "application/json", gatewaytest.PlainHi)
		return status == http.StatusOK
	})
}
