package main

import (
	"bufio"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/patchbay-ai/patchbay/internal/gateway/gatewaytest"
)

// TestBlocksThatARequestRuns counts the blocks of code, files and packages that one request runs
// through, with the features that most have off and with many on. It compares the counters of
// statements of two runs of the program, one with many equal requests and one with none: what
// each of the requests ran is counted, and nothing that only the start, a timer or a new
// connection needs. The figures are reported; they are no limit.
func TestBlocksThatARequestRuns(t *testing.T) {
	if os.Getenv("PATCHBAY_WAY") == "" {
		t.Skip("PATCHBAY_WAY is not set: it compiles the program with counters (make way)")
	}
	program := filepath.Join(t.TempDir(), "patchbay")
	if err := build(program, "-cover", "-covermode=atomic", "-coverpkg=../../..."); err != nil {
		t.Fatal(err)
	}
	const hello = `{"model":"m","messages":[{"role":"user","content":"Hello"}]}`
	const answer = `{"id":"1","object":"chat.completion","created":1,"model":"m","choices":[{"index":0,"message":` +
		`{"role":"assistant","content":"Hello"},"finish_reason":"stop"}],"usage":{"prompt_tokens":1,"completion_tokens":1,"total_tokens":2}}`
	const features = "    load-balancer: least-time\n    rate-limit: {enabled: true, capacity: 1000000, refill-rate: 1000000}\n" +
		"    queue: {size: 10}\n    hedge: {enabled: true}\n"
	const accounts = "quota: {enabled: true}\nanswer-cache: {services: [chat]}\nprices: {models: [{model: m, input: 1, output: 1}]}\n"
	for _, test := range []struct{ name, adapter, path, body, answer, policy, rest string }{
		{"chat", "openai", "/v1/chat/completions", hello, answer, "", ""},
		{"chat with features", "openai", "/v1/chat/completions", hello, answer, features, accounts},
		{
			"messages", "ollama", "/v1/messages", `{"model":"m","max_tokens":9,"messages":[{"role":"user","content":"Hello"}]}`,
			`{"model":"m","created_at":"2025-01-01T00:00:00Z","message":{"role":"assistant","content":"Hello"},"done":true,` +
				`"done_reason":"stop","prompt_eval_count":1,"eval_count":1}`, "", "",
		},
	} {
		t.Run(test.name, func(sub *testing.T) {
			backend := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				_, _ = io.Copy(io.Discard, r.Body)
				w.Header().Set("Content-Type", "application/json")
				_, _ = io.WriteString(w, test.answer)
			}))
			sub.Cleanup(backend.Close)
			config := filepath.Join(sub.TempDir(), "patchbay.yaml")
			gatewaytest.WriteFile(sub, config, "services:\n  chat:\n"+test.policy+"    instances:\n      - {name: m, adapter: "+
				test.adapter+", base-url: "+backend.URL+"}\n"+test.rest)
			const requests = 500
			idle := statementsRun(sub, program, config, 0, test.path, test.body)
			blocks, files, packages := 0, map[string]bool{}, map[string]bool{}
			for place, count := range statementsRun(sub, program, config, requests, test.path, test.body) {
				if count-idle[place] >= requests {
					file, _, _ := strings.Cut(place, ":")
					files[file], packages[path.Dir(file)] = true, true
					blocks++
				}
			}
			if blocks == 0 {
				sub.Fatal("no block ran for every request")
			}
			sub.Logf("%s: %d blocks, %d files, %d packages:\n%s", test.name, blocks, len(files), len(packages),
				strings.Join(slices.Sorted(maps.Keys(files)), "\n"))
		})
	}
}

// statementsRun runs the program while it gets so many requests, and returns how often
// each of its blocks of statements ran.
func statementsRun(t *testing.T, program, config string, requests int, path, body string) map[string]int {
	t.Helper()
	counters, profile := t.TempDir(), filepath.Join(t.TempDir(), "profile")
	shipped := binary
	binary = program
	defer func() { binary = shipped }()
	c := startChildWith(t, []string{"GOCOVERDIR=" + counters}, "serve", "--listen", "127.0.0.1:0", "--config", config)
	c.waitFor(`"msg":"listening"`)
	client := &http.Client{Transport: &http.Transport{}}
	defer client.CloseIdleConnections()
	for range requests {
		response, err := client.Post(c.url()+path, "application/json", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		if reply := gatewaytest.ReadReply(response); reply.Status != http.StatusOK {
			t.Fatalf("%d %s", reply.Status, reply.Body)
		}
	}
	c.signal(syscall.SIGTERM)
	c.exits(exitOK)
	if output, err := exec.CommandContext(gatewaytest.Deadline(t), "go", "tool", "covdata", "textfmt", "-i="+counters, "-o="+profile).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, output)
	}
	return readProfile(t, profile)
}

// readProfile reads a profile of coverage, in lines such as "file.go:1.2,3.4 5 6": the
// block, its statements, and how often it ran.
func readProfile(t *testing.T, name string) map[string]int {
	t.Helper()
	file, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	counts := make(map[string]int)
	lines := bufio.NewScanner(file)
	for lines.Scan() {
		fields := strings.Fields(lines.Text())
		if count, err := strconv.Atoi(fields[len(fields)-1]); err == nil && len(fields) == 3 {
			counts[fields[0]] += count
		}
	}
	return counts
}
