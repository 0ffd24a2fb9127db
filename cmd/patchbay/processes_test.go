//go:build unix

package main

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/go-json-experiment/json"

	"github.com/patchbay-ai/patchbay/internal/gateway/gatewaytest"
	"github.com/patchbay-ai/patchbay/internal/wings/processes"
)

// process asks a gateway for one of its processes.
func (c *child) process(name string) processes.View {
	c.t.Helper()
	answer := c.ask(http.MethodGet, "/api/processes/"+name, "")
	var reply struct {
		Data processes.View `json:"data"`
	}
	if err := json.Unmarshal([]byte(answer.Body), &reply); err != nil || answer.Status != http.StatusOK {
		c.t.Fatalf("%d %v %s", answer.Status, err, answer.Body)
	}
	return reply.Data
}

// startProcess has a gateway start a process, and waits until it is ready.
func (c *child) startProcess(name string) processes.View {
	c.t.Helper()
	if answer := c.ask(http.MethodPost, "/api/processes/"+name+"/start", ""); answer.Status != http.StatusOK {
		c.t.Fatalf("%d %s", answer.Status, answer.Body)
	}
	gatewaytest.Eventually(c.t, name+" is ready", func() bool {
		view := c.process(name)
		if view.State == processes.Failed {
			c.t.Fatalf("%s failed: %s", name, view.Reason)
		}
		return view.State == processes.Ready
	})
	return c.process(name)
}

// familyOf returns a process and its supervisor.
func familyOf(t *testing.T, pid int) []int {
	t.Helper()
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return []int{pid} // no Linux
	}
	fields := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:]))
	parent, err := strconv.Atoi(fields[1])
	if err != nil {
		t.Fatal(err)
	}
	return []int{pid, parent}
}

func isRunning(pid int) bool {
	if syscall.Kill(pid, 0) != nil {
		return false
	}
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	return err != nil || !strings.Contains(string(stat), ") Z ")
}

// TestNoProcessOutlivesTheGateway ends a gateway in peace and as a crash would, with
// processes that run and one that is about to.
func TestNoProcessOutlivesTheGateway(t *testing.T) {
	file := filepath.Join(t.TempDir(), "patchbay.yaml")
	gatewaytest.WriteFile(t, file, "processes:\n  a: "+demoProcess(t, "")+"\n  b: "+demoProcess(t, "")+
		"\n  slow: {command: [sleep, \"1000\"], ready: \"http://127.0.0.1:1/\"}\n")
	for name, end := range map[string]func(*child){
		"SIGKILL": (*child).kill,
		"SIGTERM": func(c *child) { c.signal(syscall.SIGTERM); c.exits(exitOK) },
	} {
		c := serving(t, "--config", file, "--data-dir", t.TempDir())
		pids := append(familyOf(t, c.startProcess("a").PID), familyOf(t, c.startProcess("b").PID)...)
		c.ask(http.MethodPost, "/api/processes/slow/start", "")
		gatewaytest.Eventually(t, "the slow one has a number", func() bool { return c.process("slow").PID != 0 })
		pids = append(pids, familyOf(t, c.process("slow").PID)...)
		end(c)
		for _, pid := range pids {
			gatewaytest.Eventually(t, fmt.Sprintf("%s: %d has ended", name, pid), func() bool { return !isRunning(pid) })
		}
	}
}

// TestAReloadLeavesOtherProcessesAlone changes one of two processes in the file.
func TestAReloadLeavesOtherProcessesAlone(t *testing.T) {
	file := filepath.Join(t.TempDir(), "patchbay.yaml")
	one, other := demoProcess(t, ""), demoProcess(t, "")
	gatewaytest.WriteFile(t, file, "processes:\n  a: "+one+"\n  b: "+other+"\n")
	c := serving(t, "--config", file, "--data-dir", t.TempDir())
	a, b := c.startProcess("a"), c.startProcess("b")
	replaceFile(t, file, "processes:\n  a: "+one+"\n  b: "+demoProcess(t, ", env: {X: \"1\"}")+"\n  c: "+demoProcess(t, "")+"\n")
	gatewaytest.Eventually(t, "the changed one has ended", func() bool { return !isRunning(b.PID) })
	c.startProcess("c")
	if now := c.process("a"); now.PID != a.PID || now.State != processes.Ready {
		t.Errorf("a was %+v and is %+v", a, now)
	}
	replaceFile(t, file, "processes:\n  a: "+one+"\n")
	gatewaytest.Eventually(t, "the others are gone", func() bool {
		return c.ask(http.MethodGet, "/api/processes/b", "").Status == http.StatusNotFound && c.ask(http.MethodGet, "/api/processes/c", "").Status == http.StatusNotFound
	})
	if now := c.process("a"); now.PID != a.PID {
		t.Errorf("a was %+v and is %+v", a, now)
	}
}

// TestOnlyAdministratorsStartAndStopProcesses tries it with each role, and looks for the
// lines of audit.
func TestOnlyAdministratorsStartAndStopProcesses(t *testing.T) {
	file := filepath.Join(t.TempDir(), "patchbay.yaml")
	gatewaytest.WriteFile(t, file, `
security: {enabled: true, tokens: [{name: v, role: VIEWER, token-sha256: "${sha256:V}"}, {name: o, role: OPERATOR, token-sha256: "${sha256:O}"}, {name: a, role: ADMIN, token-sha256: "${sha256:A}"}]}
processes: {talks: {command: [sh, -c, "echo what it says; sleep 1000"], ready: "http://127.0.0.1:1/"}}
`)
	c := startChildWith(t, []string{"V=viewer", "O=operator", "A=administrator"}, "serve", "--listen", "127.0.0.1:0", "--config", file, "--data-dir", t.TempDir())
	c.waitFor(`"msg":"listening"`)
	ask := func(method, path, token string) gatewaytest.Reply {
		t.Helper()
		return c.askAs(token, method, path, "")
	}
	for token, want := range map[string]int{"viewer": 403, "operator": 403, "administrator": 200} {
		if got := ask(http.MethodPost, "/api/processes/talks/start", token); got.Status != want {
			t.Errorf("%s starts: %d %s", token, got.Status, got.Body)
		}
	}
	gatewaytest.Eventually(t, "an administrator sees what it says", func() bool {
		return strings.Contains(ask(http.MethodGet, "/api/processes/talks", "administrator").Body, "what it says")
	})
	c.waitFor(`"line":"what it says"`)
	for _, token := range []string{"viewer", "operator"} {
		if got := ask(http.MethodGet, "/api/processes/talks", token); got.Status != 200 || strings.Contains(got.Body, "what it says") {
			t.Errorf("%s sees: %d %s", token, got.Status, got.Body)
		}
		if got := ask(http.MethodPost, "/api/processes/talks/stop", token); got.Status != 403 {
			t.Errorf("%s stops: %d %s", token, got.Status, got.Body)
		}
	}
	if got := ask(http.MethodPost, "/api/processes/talks/stop?dryRun=true", "administrator"); got.Status != 200 || !strings.Contains(got.Body, "would be stopped") {
		t.Errorf("as if: %d %s", got.Status, got.Body)
	}
	if got := ask(http.MethodPost, "/api/processes/talks/stop", "administrator"); got.Status != 200 {
		t.Errorf("stops: %d %s", got.Status, got.Body)
	}
	c.waitFor("process talks stopped")
}

// laptop is the configuration of a host with several models of which one fits.
func laptop(t *testing.T, names ...string) string {
	t.Helper()
	var text strings.Builder
	text.WriteString("processes:\n")
	for _, name := range names {
		fmt.Fprintf(&text, "  %s: %s\n", name, demoProcess(t, ", group: gpu"))
	}
	text.WriteString("services:\n  chat:\n    health-check: {interval: 1s}\n    instances:\n")
	for _, name := range names {
		fmt.Fprintf(&text, "      - {name: %s, process: %s, upstream-model: demo-chat}\n", name, name)
	}
	return text.String()
}

// TestEveryModelOfALaptopAnswers asks for models of which one fits into memory, one after
// the other and several at once.
func TestEveryModelOfALaptopAnswers(t *testing.T) {
	names := []string{"a", "b", "c"}
	file := filepath.Join(t.TempDir(), "patchbay.yaml")
	gatewaytest.WriteFile(t, file, laptop(t, names...))
	c := serving(t, "--config", file, "--data-dir", t.TempDir())
	chat := func(model string) gatewaytest.Reply {
		return c.ask(http.MethodPost, "/v1/chat/completions", `{"model":"`+model+`","messages":[{"role":"user","content":"Hello"}]}`)
	}
	running := func() (ready []string) {
		for _, name := range names {
			if state := c.process(name).State; state == processes.Ready || state == processes.Starting || state == processes.Stopping {
				ready = append(ready, name)
			}
		}
		return ready
	}
	for _, name := range []string{"a", "b", "b", "a"} {
		if got := chat(name); got.Status != http.StatusOK {
			t.Fatalf("%s: %d %s", name, got.Status, got.Body)
		}
		if now := running(); len(now) != 1 || now[0] != name {
			t.Errorf("after a request for %s these run: %v", name, now)
		}
	}
	var clients sync.WaitGroup
	for n := range 12 {
		clients.Go(func() {
			if got := chat(names[n%len(names)]); got.Status != http.StatusOK {
				t.Errorf("%s: %d %s", names[n%len(names)], got.Status, got.Body)
			}
		})
	}
	clients.Wait()
	// A server that does not run is no failing backend.
	if got := c.ask(http.MethodGet, "/actuator/health", ""); got.Status != http.StatusOK || strings.Contains(got.Body, "DOWN") {
		t.Errorf("health: %d %s", got.Status, got.Body)
	}
	dying := running()[0]
	pid := c.process(dying).PID
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	// Until then its connections may still take a request, which is lost with it.
	gatewaytest.Eventually(t, "the gateway knows that it is dead", func() bool { return c.process(dying).PID != pid })
	for _, name := range names { // the server of one has just died
		if got := chat(name); got.Status != http.StatusOK {
			t.Errorf("%s: %d %s", name, got.Status, got.Body)
		}
	}
}

// TestRequestsWaitForAProcessThatDied kills a process while more requests are at it than open a
// breaker. They are lost; those that come next wait for its restart.
func TestRequestsWaitForAProcessThatDied(t *testing.T) {
	file := filepath.Join(t.TempDir(), "patchbay.yaml")
	gatewaytest.WriteFile(t, file, "processes:\n  a: "+demoProcess(t, "")+`
services:
  chat:
    instances:
      - {name: m, process: a, upstream-model: demo-slow}
`)
	c := serving(t, "--config", file, "--data-dir", t.TempDir())
	pid := c.startProcess("a").PID
	const many = 8
	replies := make(chan gatewaytest.Reply, many)
	ask := func(n int) {
		replies <- c.ask(http.MethodPost, "/v1/chat/completions", fmt.Sprintf(`{"model":"m","stream":true,"messages":[{"role":"user","content":"Hello %d"}]}`, n))
	}
	var clients sync.WaitGroup
	for n := range many {
		clients.Go(func() { ask(n) })
	}
	gatewaytest.Eventually(t, "all are at the process", func() bool { return c.process("a").Requests == many })
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	lost := 0
	for range many {
		if got := <-replies; got.Status != http.StatusOK {
			lost++
		}
	}
	if lost == 0 {
		t.Error("the process had no requests when it was killed")
	}
	for n := range many {
		clients.Go(func() { ask(many + n) })
	}
	for range many {
		if got := <-replies; got.Status != http.StatusOK || !strings.Contains(got.Body, "[DONE]") {
			t.Errorf("one that came next: %d %s", got.Status, got.Body)
		}
	}
	clients.Wait()
}

// TestProcessesWaitLikeModelsThatSleep looks at how requests wait for processes, and at how
// processes are seen and moved like models.
func TestProcessesWaitLikeModelsThatSleep(t *testing.T) {
	file := filepath.Join(t.TempDir(), "patchbay.yaml")
	yaml := laptop(t, "a", "b") + "      - {name: never, process: never}\n"
	yaml = strings.Replace(yaml, "processes:\n", "processes:\n  never: {command: [sleep, \"1000\"], ready: \"http://127.0.0.1:1/\"}\n", 1)
	gatewaytest.WriteFile(t, file, strings.Replace(yaml, "health-check:", "queue: {size: 1}\n    health-check:", 1))
	c := serving(t, "--config", file, "--data-dir", t.TempDir())
	chat := func(model string) gatewaytest.Reply {
		return c.ask(http.MethodPost, "/v1/chat/completions", `{"model":"`+model+`","messages":[{"role":"user","content":"Hello"}]}`)
	}
	for n, want := range []bool{true, false} {
		if got := chat("a"); got.Status != http.StatusOK || (got.Header.Get("X-Router-Wait-Ms") != "") != want {
			t.Errorf("request %d: %d, wait %q", n, got.Status, got.Header.Get("X-Router-Wait-Ms"))
		}
	}
	var waiting sync.WaitGroup
	waiting.Go(func() {
		if got := chat("never"); got.Status != http.StatusServiceUnavailable || !strings.Contains(got.Body, "could not be started") {
			t.Errorf("one whose process was stopped: %d %s", got.Status, got.Body)
		}
	})
	gatewaytest.Eventually(t, "one waits", func() bool { return c.process("never").Waiting == 1 })
	if got := chat("never"); got.Status != http.StatusTooManyRequests {
		t.Errorf("beyond the queue: %d %s", got.Status, got.Body)
	}
	if got := c.ask(http.MethodGet, "/api/route/explain?service=chat&model=never", ""); !strings.Contains(got.Body, "loading, about ") {
		t.Errorf("explain: %s", got.Body)
	}
	if got := c.ask(http.MethodPost, "/api/processes/never/stop", ""); got.Status != http.StatusOK {
		t.Errorf("stop: %d %s", got.Status, got.Body)
	}
	waiting.Wait()
	for _, step := range []struct{ args, want string }{
		{"load b", "loaded b on http://b.process"},
		{"pin b", "pinned b on"},
		{"list", "http://b.process"},
	} {
		if code, stdout, stderr := runFor(t, append(append([]string{"models"}, strings.Fields(step.args)...), "--url", c.url())...); code != exitOK || !strings.Contains(stdout, step.want) {
			t.Errorf("models %s: %d %s%s", step.args, code, stdout, stderr)
		}
	}
	if a, b := c.process("a").State, c.process("b").State; a != processes.Stopped || b != processes.Ready {
		t.Errorf("a is %s, b is %s", a, b)
	}
	if got := chat("a"); got.Status != http.StatusServiceUnavailable || !strings.Contains(got.Body, "pinned") {
		t.Errorf("beside one that is pinned: %d %s", got.Status, got.Body)
	}
	if got := chat("b"); got.Status != http.StatusOK || got.Header.Get("X-Router-Wait-Ms") != "" {
		t.Errorf("the pinned one: %d %s", got.Status, got.Body)
	}
}

// TestInstancesNameProcessesOfTheFile adds instances by the API, and asks for a model whose
// process cannot be started.
func TestInstancesNameProcessesOfTheFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "patchbay.yaml")
	gatewaytest.WriteFile(t, file, "processes:\n  a: "+demoProcess(t, "")+
		"\n  broken: {command: [no-such-program, $PORT]}\nservices: {chat: {instances: [{name: broken, process: broken}]}}\n")
	c := serving(t, "--config", file, "--data-dir", t.TempDir())
	add := func(process string) gatewaytest.Reply {
		return c.ask(http.MethodPost, gatewaytest.AddInstancePath+"chat",
			`{"name":"m","baseUrl":"http://`+process+`.process","process":"`+process+`","upstreamModel":"demo-chat"}`)
	}
	if got := add("x"); got.Status != http.StatusBadRequest || !strings.Contains(got.Body, "the section processes of the configuration file has none of this name") {
		t.Errorf("one that the file does not have: %d %s", got.Status, got.Body)
	}
	if got := c.ask(http.MethodPost, gatewaytest.AddInstancePath+"chat", `{"name":"m","baseUrl":"http://a.process"}`); got.Status != http.StatusBadRequest {
		t.Errorf("an address of a process without it: %d %s", got.Status, got.Body)
	}
	if got := add("a"); got.Status != http.StatusCreated {
		t.Fatalf("%d %s", got.Status, got.Body)
	}
	chat := func(model string) gatewaytest.Reply {
		return c.ask(http.MethodPost, "/v1/chat/completions", `{"model":"`+model+`","messages":[{"role":"user","content":"Hello"}]}`)
	}
	if got := chat("m"); got.Status != http.StatusOK {
		t.Errorf("%d %s", got.Status, got.Body)
	}
	if got := chat("broken"); got.Status != http.StatusServiceUnavailable || !strings.Contains(got.Body, "could not be started") || strings.Contains(got.Body, "no-such-program") {
		t.Errorf("%d %s", got.Status, got.Body)
	}
	if got := c.process("broken"); got.State != processes.Failed || !strings.Contains(got.Reason, "no-such-program was not found in PATH") {
		t.Errorf("%+v", got)
	}
	bad := filepath.Join(t.TempDir(), "bad.yaml")
	gatewaytest.WriteFile(t, bad, "processes: {qwen: {command: [true, $PORT]}}\nservices: {chat: {instances: [{name: m, process: qwem}]}}\n")
	if code, _, stderr := runHere(t, "check", bad); code != exitConfig || !strings.Contains(stderr, `bad.yaml:2:`) || !strings.Contains(stderr, `did you mean "qwen"?`) {
		t.Errorf("%d %s", code, stderr)
	}
}

// TestPreloadsAndTestsStartTheProcess asks for a model in memory as clients of Ollama do, and
// tests an instance as operators do, while its process is stopped.
func TestPreloadsAndTestsStartTheProcess(t *testing.T) {
	file := filepath.Join(t.TempDir(), "patchbay.yaml")
	gatewaytest.WriteFile(t, file, laptop(t, "a", "b"))
	c := serving(t, "--config", file, "--data-dir", t.TempDir())
	if state := c.process("a").State; state != processes.Stopped {
		t.Fatalf("it is %s at the start", state)
	}
	preload := c.ask(http.MethodPost, "/ollama/api/generate", `{"model":"a"}`)
	if preload.Status != http.StatusOK || !strings.Contains(preload.Body, `"done_reason":"load"`) || preload.Header.Get("X-Router-Wait-Ms") == "" {
		t.Errorf("%d %v %s", preload.Status, preload.Header, preload.Body)
	}
	if view := c.process("a"); view.State != processes.Ready {
		t.Errorf("it is %s after a request for it in memory", view.State)
	}
	tested := c.ask(http.MethodPost, "/api/config/instance/test/chat", `{"instanceId":"b@http://b.process"}`)
	if tested.Status != http.StatusOK || !strings.Contains(tested.Body, `"ok":true`) || !strings.Contains(tested.Body, `"heldMs":`) {
		t.Errorf("%d %s", tested.Status, tested.Body)
	}
	if view := c.process("b"); view.State != processes.Ready {
		t.Errorf("it is %s after its test", view.State)
	}
}

// TestAPreloadedProcessRunsBeforeTheFirstRequest has one that is described by texts, and is
// ended by its own command.
func TestAPreloadedProcessRunsBeforeTheFirstRequest(t *testing.T) {
	file, ended := filepath.Join(t.TempDir(), "patchbay.yaml"), filepath.Join(t.TempDir(), "the end")
	gatewaytest.WriteFile(t, file, fmt.Sprintf(`
processes:
  a:
    command: |
      # the demo is a model server without a model
      %q demo --listen 127.0.0.1:$PORT \
        --data-dir '%s'
    ready: http://127.0.0.1:$PORT/actuator/health
    stop: sh -c 'kill "$0" && echo "$0" >"$1"' $PID '%s'
    start-timeout: 2m
    preload: true
  b: %s
`, binary, t.TempDir(), ended, demoProcess(t, "")))
	c := serving(t, "--config", file, "--data-dir", t.TempDir())
	gatewaytest.Eventually(t, "a is ready", func() bool { return c.process("a").State == processes.Ready })
	if b := c.process("b"); b.State != processes.Stopped {
		t.Errorf("b is %s", b.State)
	}
	pid := c.process("a").PID
	c.signal(syscall.SIGTERM)
	c.exits(exitOK)
	if text, err := os.ReadFile(ended); err != nil || strings.TrimSpace(string(text)) != strconv.Itoa(pid) || isRunning(pid) {
		t.Errorf("%q %v; the process was %d", text, err, pid)
	}
}
