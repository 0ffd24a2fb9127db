package batching_test

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/patchbay-ai/patchbay/internal/gateway/gatewaytest"
	"github.com/patchbay-ai/patchbay/internal/testing/storetest"
)

const on = "batches: {enabled: true}\n"

// twoTenants are the keys of two tenants.
func twoTenants() string {
	return fmt.Sprintf(`security: {enabled: true, keys: [{id: alice, key-sha256: %s, tenant: blue}, {id: ann, key-sha256: %s, tenant: blue, models: [other]}, {id: bob, key-sha256: %s, tenant: red}],
  tokens: [{name: a, role: ADMIN, token-sha256: %s}]}
`, gatewaytest.HashOf("alice-key"), gatewaytest.HashOf("ann-key"), gatewaytest.HashOf("bob-key"), gatewaytest.HashOf("admin-token"))
}

func as(key string) []string { return []string{"Authorization", "Bearer " + key} }

// line is a good line of a batch of chats.
func line(id, model string) string {
	return fmt.Sprintf(`{"custom_id":%q,"method":"POST","url":"/v1/chat/completions","body":{"model":%q,"messages":[{"role":"user","content":"hello"}]}}`, id, model)
}

// upload uploads a file and returns its id.
func upload(t *testing.T, r *gatewaytest.Gateway, content string, headers ...string) string {
	t.Helper()
	return idOf(t, tryUpload(t, r, content, headers...).Succeeds(t).Body)
}

func tryUpload(t *testing.T, r *gatewaytest.Gateway, content string, headers ...string) gatewaytest.Reply {
	t.Helper()
	var body strings.Builder
	contentType := gatewaytest.WriteForm(t, &body, gatewaytest.Field("purpose", "batch"), gatewaytest.Upload("file", "in.jsonl", "application/jsonl", content))
	return r.Do("POST", "/v1/files", body.String(), append([]string{"Content-Type", contentType}, headers...)...)
}

func idOf(t *testing.T, body string) string {
	t.Helper()
	return gatewaytest.At(t, gatewaytest.DecodeObject(t, body), "id").(string)
}

// batch is what tests read of a batch of either form.
type batch struct {
	ID     string `json:"id"`
	Status string `json:"status"`
	Output string `json:"output_file_id"`
	Errors string `json:"error_file_id"`
	Counts struct {
		Total     int `json:"total"`
		Completed int `json:"completed"`
		Failed    int `json:"failed"`
	} `json:"request_counts"`
	Faults struct {
		Data []struct {
			Code string `json:"code"`
			Line int    `json:"line"`
		} `json:"data"`
	} `json:"errors"`
	Processing string `json:"processing_status"`
	Results    string `json:"results_url"`
}

// submit makes a batch of a file.
func submit(t *testing.T, r *gatewaytest.Gateway, file, endpoint string, headers ...string) string {
	t.Helper()
	return idOf(t, r.Do("POST", "/v1/batches", fmt.Sprintf(`{"input_file_id":%q,"endpoint":%q,"completion_window":"24h"}`, file, endpoint), headers...).Succeeds(t).Body)
}

// ended waits for the end of a batch.
func ended(t *testing.T, r *gatewaytest.Gateway, path string, headers ...string) (b batch) {
	t.Helper()
	gatewaytest.Eventually(t, "the batch ends", func() bool {
		b = batch{}
		if err := json.Unmarshal([]byte(r.Do("GET", path, "", headers...).Succeeds(t).Body), &b); err != nil {
			t.Fatal(err)
		}
		switch b.Status + b.Processing {
		case "completed", "failed", "expired", "cancelled", "ended":
			return true
		}
		return false
	})
	return b
}

func content(t *testing.T, r *gatewaytest.Gateway, file string, headers ...string) string {
	t.Helper()
	return r.Do("GET", "/v1/files/"+file+"/content", "", headers...).Succeeds(t).Body
}

func TestLinesOfABatchAreRequestsOfTheirOwner(t *testing.T) {
	t.Parallel()
	backend := gatewaytest.StartBackend(t)
	r := gatewaytest.Start(t, twoTenants()+on+gatewaytest.ChatYAML(gatewaytest.Instance("m", backend.URL()), gatewaytest.Instance("other", backend.URL())))
	file := upload(t, r, line("a", "m")+"\n"+line("b", "other")+"\n"+line("c", "nobody"), as("ann-key")...)
	b := ended(t, r, "/v1/batches/"+submit(t, r, file, "/v1/chat/completions", as("ann-key")...), as("ann-key")...)
	if b.Status != "completed" || b.Counts.Total != 3 || b.Counts.Completed != 1 || b.Counts.Failed != 2 {
		t.Fatalf("the batch is %+v", b)
	}
	output := content(t, r, b.Output, as("alice-key")...) // of the same tenant
	if !strings.Contains(output, `"custom_id":"b","response":{"status_code":200,"request_id":"req_`) || strings.Count(output, "\n") != 1 {
		t.Errorf("the output is %s", output)
	}
	faults := content(t, r, b.Errors, as("ann-key")...)
	if !strings.Contains(faults, `"custom_id":"a","response":{"status_code":403`) || !strings.Contains(faults, `"custom_id":"c","response":{"status_code":403`) {
		t.Errorf("the errors are %s", faults)
	}
	if n := len(backend.Requests()); n != 1 {
		t.Errorf("the backend got %d requests", n)
	}
	for _, path := range []string{"/v1/batches/" + b.ID, "/v1/files/" + file, "/v1/files/" + b.Output, "/v1/files/" + b.Output + "/content"} {
		if status := r.Do("GET", path, "", as("bob-key")...).Status; status != 404 {
			t.Errorf("another tenant gets %d for %s", status, path)
		}
	}
	if status := r.Do("POST", "/v1/batches/"+b.ID+"/cancel", "", as("bob-key")...).Status; status != 404 {
		t.Errorf("another tenant cancels it: %d", status)
	}
	if status := r.Do("DELETE", "/v1/files/"+file, "", as("bob-key")...).Status; status != 404 {
		t.Errorf("another tenant deletes its file: %d", status)
	}
	for _, path := range []string{"/v1/batches", "/v1/files"} {
		if body := r.Do("GET", path, "", as("bob-key")...).Succeeds(t).Body; !strings.Contains(body, `"data":[]`) {
			t.Errorf("another tenant lists %s", body)
		}
	}
	r.Do("GET", "/v1/batches", "").FailsWith(t, 401, "authentication_error", "invalid_api_key", "")
}

// A line of a batch may name no more than a request of its owner.
func TestLinesNameNoMembersForOperators(t *testing.T) {
	t.Parallel()
	backend := gatewaytest.StartBackend(t)
	r := gatewaytest.Start(t, twoTenants()+on+gatewaytest.ChatYAML(gatewaytest.Instance("m", backend.URL())))
	file := upload(t, r, strings.Replace(line("a", "m"), `"model"`, `"priority":-1,"model"`, 1), as("alice-key")...)
	b := ended(t, r, "/v1/batches/"+submit(t, r, file, "/v1/chat/completions", as("alice-key")...), as("alice-key")...)
	if got := content(t, r, b.Errors, as("alice-key")...); !strings.Contains(got, `"code":"member_not_allowed"`) || len(backend.Requests()) != 0 {
		t.Errorf("got %s and %d requests at the backend, want member_not_allowed and none", got, len(backend.Requests()))
	}
}

func TestEndpointsOfBatches(t *testing.T) {
	t.Parallel()
	backend := gatewaytest.StartBackend(t)
	yaml := "services: {chat: {instances: [" + gatewaytest.Instance("m", backend.URL()) + "]}, embedding: {instances: [" + gatewaytest.Instance("e", backend.URL()) + "]}}\n"
	r := gatewaytest.Start(t, on+yaml)
	for endpoint, body := range map[string]string{
		"/v1/chat/completions": `{"model":"m","messages":[{"role":"user","content":"x"}]}`,
		"/v1/completions":      `{"model":"m","prompt":"x"}`,
		"/v1/embeddings":       `{"model":"e","input":"x"}`,
		"/v1/responses":        `{"model":"m","input":"x"}`,
	} {
		file := upload(t, r, fmt.Sprintf(`{"custom_id":"one","method":"POST","url":%q,"body":%s}`, endpoint, body))
		b := ended(t, r, "/v1/batches/"+submit(t, r, file, endpoint))
		if b.Counts.Completed != 1 {
			t.Errorf("%s: the batch is %+v", endpoint, b)
			continue
		}
		if output := content(t, r, b.Output); !strings.Contains(output, `"status_code":200`) {
			t.Errorf("%s: the output is %s", endpoint, output)
		}
	}
}

func TestBadRequestsToFilesAndBatches(t *testing.T) {
	t.Parallel()
	r := gatewaytest.Start(t, on+"files: {max-size: 8KiB, max-files: 3, max-bytes-per-key: 24KiB}\n"+gatewaytest.PoolYAML(gatewaytest.StartBackend(t)))
	tryUpload(t, r, strings.Repeat("x", 9000)).FailsWith(t, 413, "invalid_request_error", "request_too_large", "")
	r.PostForm("/v1/files", gatewaytest.Field("purpose", "assistants"), gatewaytest.Upload("file", "a", "text/plain", "x")).FailsWith(t, 400, "invalid_request_error", "invalid_value", "purpose")
	r.PostForm("/v1/files", gatewaytest.Field("purpose", "batch")).FailsWith(t, 400, "invalid_request_error", "missing_parameter", "file")
	r.PostForm("/v1/files", gatewaytest.Upload("file", "a", "text/plain", "x")).FailsWith(t, 400, "invalid_request_error", "missing_parameter", "purpose")
	r.Post("/v1/files", `{}`).FailsWith(t, 415, "invalid_request_error", "unsupported_media_type", "")
	tryUpload(t, r, "").FailsWith(t, 400, "invalid_request_error", "invalid_value", "file")
	first := upload(t, r, strings.Repeat("x", 7000))
	upload(t, r, strings.Repeat("y", 7000))
	tryUpload(t, r, strings.Repeat("z", 3000)).FailsWith(t, 400, "invalid_request_error", "storage_limit_reached", "")
	r.Do("DELETE", "/v1/files/"+first, "").Succeeds(t)
	r.Do("GET", "/v1/files/"+first, "").FailsWith(t, 404, "not_found_error", "file_not_found", "")
	good := upload(t, r, line("a", "m"))
	upload(t, r, "x")
	tryUpload(t, r, "z").FailsWith(t, 400, "invalid_request_error", "storage_limit_reached", "")
	for body, fault := range map[string][2]string{
		`{`: {"invalid_json", ""},
		`{"endpoint":"/v1/chat/completions","completion_window":"24h"}`:                                                   {"missing_parameter", "input_file_id"},
		`{"input_file_id":"` + good + `","endpoint":"/v1/audio/speech","completion_window":"24h"}`:                        {"invalid_value", "endpoint"},
		`{"input_file_id":"` + good + `","endpoint":"/v1/chat/completions","completion_window":"soon"}`:                   {"invalid_value", "completion_window"},
		`{"input_file_id":"` + good + `","endpoint":"/v1/chat/completions"}`:                                              {"missing_parameter", "completion_window"},
		`{"input_file_id":"` + good + `","endpoint":"/v1/chat/completions","completion_window":"24h","metadata":{"a":1}}`: {"invalid_value", "metadata"},
	} {
		r.Post("/v1/batches", body).FailsWith(t, 400, "invalid_request_error", fault[0], fault[1])
	}
	r.Post("/v1/batches", `{"input_file_id":"file-none","endpoint":"/v1/chat/completions","completion_window":"24h"}`).FailsWith(t, 404, "not_found_error", "file_not_found", "")
	for _, path := range []string{"/v1/batches?limit=0", "/v1/batches?after=x", "/v1/files?order=up", "/v1/files?after=x"} {
		if status := r.Do("GET", path, "").Status; status != 400 {
			t.Errorf("%s gives %d", path, status)
		}
	}
	r.Do("GET", "/v1/batches/batch_none", "").FailsWith(t, 404, "not_found_error", "batch_not_found", "")
	b := ended(t, r, "/v1/batches/"+submit(t, r, good, "/v1/embeddings"))
	if b.Status != "failed" || len(b.Faults.Data) != 1 || b.Faults.Data[0].Code != "invalid_url" || b.Faults.Data[0].Line != 1 {
		t.Errorf("a batch whose lines go elsewhere is %+v", b)
	}
	r.Do("POST", "/v1/batches/"+b.ID+"/cancel", "").FailsWith(t, 400, "invalid_request_error", "invalid_value", "")
}

func TestFilesAreListedInPages(t *testing.T) {
	t.Parallel()
	r := gatewaytest.Start(t, on)
	var made []string
	for i := range 3 {
		made = append(made, upload(t, r, fmt.Sprint("file ", i)))
	}
	if got := content(t, r, made[1]); got != "file 1" {
		t.Errorf("the content is %q", got)
	}
	seen, after := map[string]bool{}, ""
	for range made {
		var page struct {
			Data []struct {
				ID string `json:"id"`
			} `json:"data"`
			HasMore bool   `json:"has_more"`
			LastID  string `json:"last_id"`
		}
		path := "/v1/files?limit=1&order=asc"
		if after != "" {
			path += "&after=" + after
		}
		if err := json.Unmarshal([]byte(r.Do("GET", path, "").Succeeds(t).Body), &page); err != nil {
			t.Fatal(err)
		}
		if len(page.Data) != 1 || page.HasMore != (len(seen) < 2) || page.LastID != page.Data[0].ID {
			t.Fatalf("a page is %+v", page)
		}
		after = page.LastID
		seen[after] = true
	}
	if len(seen) != 3 {
		t.Errorf("the pages have %v", seen)
	}
	if body := r.Do("GET", "/v1/files?purpose=batch_output", "").Succeeds(t).Body; !strings.Contains(body, `"data":[]`) {
		t.Errorf("files of another purpose: %s", body)
	}
}

// An upload whose form or file name is refused is a fault of the client and leaves no content.
func TestRefusedFormsLeaveNoContent(t *testing.T) {
	t.Parallel()
	data := t.TempDir()
	r := gatewaytest.StartWith(t, gatewaytest.Setup{YAML: on, DataDir: data})
	const purpose = "--b\r\nContent-Disposition: form-data; name=\"purpose\"\r\n\r\nbatch\r\n"
	file := func(header string) string {
		return purpose + "--b\r\n" + header + "\r\n\r\n" + strings.Repeat("x", 70000) + "\r\n--b--\r\n"
	}
	named := func(name string) string { return file(`Content-Disposition: form-data; name="file"; ` + name) }
	for what, test := range map[string]struct{ body, code, param string }{
		"a name that is not UTF-8":              {named("filename=\"f\xff\""), "invalid_value", "file"},
		"a percent-encoded name, not UTF-8":     {named("filename*=UTF-8''f%FF"), "invalid_value", "file"},
		"a percent-encoded NUL":                 {named("filename*=UTF-8''f%00"), "invalid_value", "file"},
		"a percent-encoded escape":              {named("filename*=UTF-8''f%1b"), "invalid_value", "file"},
		"a control character of two bytes":      {named("filename=\"f\u0085\""), "invalid_value", "file"},
		"a long name":                           {named(`filename="` + strings.Repeat("f", 256) + `"`), "invalid_value", "file"},
		"no name":                               {file(`Content-Disposition: form-data; name="file"`), "invalid_value", "file"},
		"NUL in a header":                       {named("filename=\"f\x00\""), "invalid_body", ""},
		"an escape in a header":                 {named("filename=\"f\x1b\""), "invalid_body", ""},
		"DEL in a header":                       {named("filename=\"f\x7f\""), "invalid_body", ""},
		"a header without a colon":              {file("nonsense"), "invalid_body", ""},
		"a header without a name":               {file(": x"), "invalid_body", ""},
		"a header of bytes that are no letters": {file("\xff\xfe: x"), "invalid_body", ""},
		"a header that is too long":             {file("A: " + strings.Repeat("x", 11<<20)), "invalid_body", ""},
		"a form that ends within a header":      {purpose + "--b\r\nContent-Disp", "invalid_body", ""},
	} {
		t.Log(what)
		r.Do("POST", "/v1/files", test.body, "Content-Type", "multipart/form-data; boundary=b").FailsWith(t, 400, "invalid_request_error", test.code, test.param)
	}
	if body := r.Do("GET", "/v1/files", "").Succeeds(t).Body; !strings.Contains(body, `"data":[]`) {
		t.Errorf("listed files: got %s, want none", body)
	}
	entries, err := os.ReadDir(filepath.Join(data, "batches", "contents"))
	if err != nil || len(entries) > 0 {
		t.Errorf("contents: got %v (%v), want none", entries, err)
	}
}

func TestAnUploadThatBreaksOffLeavesNothing(t *testing.T) {
	t.Parallel()
	data := t.TempDir()
	r := gatewaytest.StartWith(t, gatewaytest.Setup{YAML: on, DataDir: data})
	conn := r.DialRaw()
	head := "POST /v1/files HTTP/1.1\r\nHost: localhost\r\nContent-Type: multipart/form-data; boundary=b\r\nContent-Length: 100000\r\n\r\n" +
		"--b\r\nContent-Disposition: form-data; name=\"file\"; filename=\"a\"\r\n\r\n"
	if _, err := io.WriteString(conn, head+strings.Repeat("x", 70000)); err != nil {
		t.Fatal(err)
	}
	contents := filepath.Join(data, "batches", "contents")
	count := func() int {
		entries, err := os.ReadDir(contents)
		if err != nil {
			t.Fatal(err)
		}
		return len(entries)
	}
	gatewaytest.Eventually(t, "the upload begins", func() bool { return count() == 1 })
	_ = conn.Close()
	gatewaytest.Eventually(t, "what came is removed", func() bool { return count() == 0 })
	if body := r.Do("GET", "/v1/files", "").Succeeds(t).Body; !strings.Contains(body, `"data":[]`) {
		t.Errorf("the files are %s", body)
	}
}

func TestBatchesThatAreOffSayHowToTurnThemOn(t *testing.T) {
	t.Parallel()
	r := gatewaytest.Start(t, "")
	for _, path := range []string{"/v1/files", "/v1/batches"} {
		if e := r.Do("GET", path, "").FailsWith(t, 404, "not_found_error", "batches_off", ""); !strings.Contains(e.Message, "batches.enabled") {
			t.Errorf("%s says %s", path, e.Message)
		}
	}
}

// heldBackend answers chats once it is opened.
type heldBackend struct {
	URL     string
	Entered chan struct{}
	Open    chan struct{}
}

func startHeld(t *testing.T) *heldBackend {
	t.Helper()
	h := &heldBackend{Entered: make(chan struct{}, 1000), Open: make(chan struct{})}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		h.Entered <- struct{}{}
		select {
		case <-h.Open:
		case <-r.Context().Done():
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"id":"c","object":"chat.completion","created":1,"model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"yes"},"finish_reason":"stop"}]}`)
	}))
	t.Cleanup(server.Close)
	h.URL = server.URL
	return h
}

func TestABatchStopsWhenTheKeyOfItsOwnerIsRevoked(t *testing.T) {
	t.Parallel()
	held := startHeld(t)
	r := gatewaytest.Start(t, twoTenants()+on+gatewaytest.ChatYAML(gatewaytest.Instance("m", held.URL)))
	var lines []string
	for i := range 50 {
		lines = append(lines, line(fmt.Sprint("l", i), "m"))
	}
	id := submit(t, r, upload(t, r, strings.Join(lines, "\n"), as("alice-key")...), "/v1/chat/completions", as("alice-key")...)
	<-held.Entered
	r.Do("DELETE", "/v1/files/"+gatewaytest.At(t, gatewaytest.DecodeObject(t, r.Do("GET", "/v1/batches/"+id, "", as("alice-key")...).Body), "input_file_id").(string), "", as("alice-key")...).
		FailsWith(t, 400, "invalid_request_error", "invalid_value", "")
	r.API("DELETE", "/api/auth/keys/alice", "", as("admin-token")...).Is(t, 200)
	close(held.Open)
	b := ended(t, r, "/v1/batches/"+id, as("ann-key")...)
	if b.Status != "cancelled" || len(b.Faults.Data) != 1 || b.Faults.Data[0].Code != "invalid_api_key" || b.Counts.Completed > 4 {
		t.Errorf("the batch is %+v", b)
	}
}

// A file is sent as long as the key of its caller is good.
func TestDownloadsEndWithTheirKey(t *testing.T) {
	t.Parallel()
	const size, step = 48 << 20, 64 << 10 // more than connections hold
	r := gatewaytest.Start(t, twoTenants()+on)
	id := upload(t, r, strings.Repeat("x", size), as("alice-key")...)
	connection := r.DialRaw()
	if err := connection.(*net.TCPConn).SetReadBuffer(step); err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(connection, "GET /v1/files/"+id+"/content HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer alice-key\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(connection, make([]byte, step)); err != nil {
		t.Fatal(err)
	}
	r.API("DELETE", "/api/auth/keys/alice", "", as("admin-token")...).Is(t, 200)
	read := step
	tick := time.NewTicker(50 * time.Millisecond) // as a client that is not fast
	defer tick.Stop()
	for range tick.C {
		n, err := io.ReadFull(connection, make([]byte, 4*step))
		if read += n; err != nil {
			break
		}
	}
	if read >= size {
		t.Errorf("all %d bytes came", read)
	}
	gatewaytest.Eventually(t, "the log has the request", func() bool { return strings.Contains(r.Logs.String(), id+"/content") })
	if strings.Contains(r.Logs.String(), "could not be sent") {
		t.Error("the log has an error")
	}
}

// A key that expires ends its batch as one that is revoked does; that its time was changed
// before does not.
func TestABatchStopsWhenTheKeyOfItsOwnerExpires(t *testing.T) {
	t.Parallel()
	held := startHeld(t)
	r := gatewaytest.Start(t, twoTenants()+on+gatewaytest.ChatYAML(gatewaytest.Instance("m", held.URL, "batch-concurrency: 1")))
	key := gatewaytest.DataOf[struct {
		Key string `json:"key"`
	}](t, r.API("POST", "/api/auth/keys", `{"id":"carl","tenant":"blue"}`, as("admin-token")...).Is(t, 201)).Key
	expireIn := func(d time.Duration) bool {
		body := fmt.Sprintf(`{"expiresAt":%q}`, time.Now().Add(d).UTC().Format(time.RFC3339Nano))
		return r.API("PUT", "/api/auth/keys/carl", body, as("admin-token")...).Status == 200
	}
	var lines []string
	for i := range 50 {
		lines = append(lines, line(fmt.Sprint("l", i), "m"))
	}
	path := "/v1/batches/" + submit(t, r, upload(t, r, strings.Join(lines, "\n"), as(key)...), "/v1/chat/completions", as(key)...)
	<-held.Entered
	if !expireIn(time.Hour) {
		t.Fatal("the key cannot be given an end")
	}
	held.Open <- struct{}{}
	<-held.Entered // the next line runs
	gatewaytest.Eventually(t, "the key has an end that is near", func() bool { return expireIn(time.Second) })
	gatewaytest.Eventually(t, "the batch is to stop", func() bool {
		return strings.Contains(r.Do("GET", path, "", as("ann-key")...).Succeeds(t).Body, `"status":"cancelling"`)
	})
	close(held.Open)
	b := ended(t, r, path, as("ann-key")...)
	if b.Status != "cancelled" || len(b.Faults.Data) != 1 || b.Faults.Data[0].Code != "invalid_api_key" || b.Counts.Completed != 2 || b.Counts.Failed != 0 {
		t.Errorf("the batch is %+v", b)
	}
}

func TestMessageBatches(t *testing.T) {
	t.Parallel()
	r := gatewaytest.Start(t, on+gatewaytest.PoolYAML(gatewaytest.StartBackend(t)))
	one := func(id, model string) string {
		return fmt.Sprintf(`{"custom_id":%q,"params":{"model":%q,"max_tokens":9,"messages":[{"role":"user","content":"x"}]}}`, id, model)
	}
	const path = "/v1/messages/batches"
	for _, body := range []string{
		`{"requests":[` + one("a", "m") + `,` + one("a", "m") + `]}`, `{"requests":[` + one("a b", "m") + `]}`, `{"requests":[]}`, `{"requests":7}`, `{"requests":[{"custom_id":"a"}]}`,
		`{"requests":[` + one("a", "m"), `7`, `{}`, `{"requests":[` + strings.Replace(one("a", "m"), `"max_tokens":9`, `"stream":true`, 1) + `]}`,
	} {
		if reply := r.Post(path, body); reply.Status != 400 || !strings.Contains(reply.Body, `"type":"invalid_request_error"`) {
			t.Errorf("%s gives %d %s", body, reply.Status, reply.Body)
		}
	}
	id := idOf(t, r.Post(path, `{"requests":[`+one("a", "m")+","+one("b", "nobody")+`]}`).Succeeds(t).Body)
	b := ended(t, r, path+"/"+id)
	results := r.Do("GET", b.Results, "").Succeeds(t).Body
	if !strings.Contains(results, `{"custom_id":"a","result":{"type":"succeeded","message":{`) ||
		!strings.Contains(results, `{"custom_id":"b","result":{"type":"errored","error":{"type":"error","error":{`) {
		t.Errorf("the results are %s", results)
	}
	if body := r.Do("GET", "/v1/batches", "").Succeeds(t).Body; !strings.Contains(body, `"data":[]`) {
		t.Errorf("the list of the other form has it: %s", body)
	}
	if body := r.Do("GET", "/v1/files", "").Succeeds(t).Body; !strings.Contains(body, `"data":[]`) {
		t.Errorf("its files are listed: %s", body)
	}
	if body := r.Do("GET", path+"?limit=1", "").Succeeds(t).Body; !strings.Contains(body, id) {
		t.Errorf("the list is %s", body)
	}
	r.Do("DELETE", path+"/"+id, "").Succeeds(t)
	if status := r.Do("GET", path+"/"+id, "").Status; status != 404 {
		t.Errorf("a batch that was deleted is there: %d", status)
	}
}

func TestThreeGatewaysShareBatches(t *testing.T) {
	t.Parallel()
	backend := gatewaytest.StartBackend(t)
	yaml := "batches: {enabled: true}\nfiles: {folder: " + gatewaytest.Quote(t.TempDir()) + "}\nstore: {config: '" + storetest.Postgres(t).URL + "'}\n" + gatewaytest.PoolYAML(backend)
	var gateways []*gatewaytest.Gateway
	for range 3 {
		gateways = append(gateways, gatewaytest.Start(t, yaml))
	}
	const total = 120
	var lines []string
	for i := range total {
		lines = append(lines, line(fmt.Sprint("l", i), "m"))
	}
	id := submit(t, gateways[0], upload(t, gateways[0], strings.Join(lines, "\n")), "/v1/chat/completions")
	b := ended(t, gateways[1], "/v1/batches/"+id)
	if b.Status != "completed" || b.Counts.Completed != total {
		t.Fatalf("the batch is %+v", b)
	}
	output := content(t, gateways[2], b.Output)
	for i := range total {
		if n := strings.Count(output, fmt.Sprintf(`"custom_id":"l%d",`, i)); n != 1 {
			t.Errorf("line %d has %d answers", i, n)
		}
	}
	if n := len(backend.Requests()); n != total {
		t.Errorf("the backend got %d requests for %d lines", n, total)
	}
	gateways[1].Do("DELETE", "/v1/files/"+b.Output, "").Succeeds(t)
	if status := gateways[2].Do("GET", "/v1/files/"+b.Output, "").Status; status != 404 {
		t.Errorf("a file that was deleted at another gateway is there: %d", status)
	}
}

func TestOperatorsSeeAndStopTheBatchesOfAll(t *testing.T) {
	t.Parallel()
	held := startHeld(t)
	r := gatewaytest.Start(t, twoTenants()+on+gatewaytest.ChatYAML(gatewaytest.Instance("m", held.URL, "batch-concurrency: 1")))
	id := submit(t, r, upload(t, r, line("a", "m")+"\n"+line("b", "m")+"\n"+line("c", "m"), as("bob-key")...), "/v1/chat/completions", as("bob-key")...)
	<-held.Entered
	list := r.API("GET", "/api/batches", "", as("admin-token")...).Is(t, 200)
	for _, want := range []string{id, `"keyId":"bob"`, `"tenant":"red"`, `"state":"in_progress"`, `"total":3`} {
		if !strings.Contains(list.Body, want) {
			t.Errorf("the list has no %s: %s", want, list.Body)
		}
	}
	r.API("POST", "/api/batches/"+id+"/cancel?dryRun=true", "", as("admin-token")...).Is(t, 200)
	r.API("POST", "/api/batches/"+id+"/cancel", "", as("admin-token")...).Is(t, 200)
	r.API("POST", "/api/batches/batch_none/cancel", "", as("admin-token")...).Is(t, 404)
	close(held.Open)
	b := ended(t, r, "/v1/batches/"+id, as("bob-key")...)
	if b.Status != "cancelled" || b.Counts.Completed+b.Counts.Failed != 1 {
		t.Errorf("the batch is %+v; one line at a time may run", b)
	}
	r.API("POST", "/api/batches/"+id+"/cancel", "", as("admin-token")...).Is(t, 400)
	if scrape := r.Do("GET", "/actuator/prometheus", "", as("admin-token")...).Body; !strings.Contains(scrape, "model_router_batch_lines_total{") {
		t.Errorf("the metrics have no lines of batches:\n%s", scrape)
	}
}
