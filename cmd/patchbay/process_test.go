package main

import (
	"bytes"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/patchbay-ai/patchbay/internal/gateway/gatewaytest"
	"github.com/patchbay-ai/patchbay/internal/testing/simulator"
)

// runHere runs the program in this process, for what ends by itself.
func runHere(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	t.Chdir(t.TempDir())
	var out, errs bytes.Buffer
	code = run(args, nil, &out, &errs)
	return code, out.String(), errs.String()
}

func TestExitCodes(t *testing.T) {
	taken, err := new(net.ListenConfig).Listen(gatewaytest.Deadline(t), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	good, bad := filepath.Join(t.TempDir(), "good.yaml"), filepath.Join(t.TempDir(), "bad.yaml")
	gatewaytest.WriteFile(t, good, "log: {level: warn}\n")
	gatewaytest.WriteFile(t, bad, "nonsense: 1\n")
	used := gatewaytest.StartWith(t, gatewaytest.Setup{DataDir: t.TempDir()})
	for name, test := range map[string]struct {
		code int
		says string
		args []string
	}{
		"help":                     {0, "", []string{"--help"}},
		"no verb":                  {0, "", nil},
		"version":                  {0, "", []string{"version"}},
		"--version":                {0, "", []string{"--version"}},
		"good file":                {0, "", []string{"check", "--config", good}},
		"data directory in use":    {1, "in use by another process", []string{"serve", "--listen", "127.0.0.1:0", "--data-dir", used.Document.Server.DataDir}},
		"data directory is a file": {1, good, []string{"serve", "--listen", "127.0.0.1:0", "--data-dir", good}},
		"nobody to check":          {1, "patchbay: no gateway answers at 127.0.0.1:1: nothing listens there\n", []string{"healthcheck", "--listen", "127.0.0.1:1"}},
		"nobody to ask for keys":   {1, "patchbay: no gateway answers at http://127.0.0.1:1: nothing listens there\n", []string{"keys", "list", "--url", "http://127.0.0.1:1"}},
		"address of nobody":        {1, "192.0.2.1", []string{"serve", "--listen", "192.0.2.1:0", "--set", "security.allow-open=true"}},
		"unknown verb":             {2, "sevre", []string{"sevre"}},
		"unknown flag":             {2, "--colour", []string{"serve", "--colour"}},
		"unknown short flag":       {2, "'x'", []string{"serve", "-x"}},
		"flag without its value":   {2, "--config", []string{"check", "--config"}},
		"good file, no flag":       {0, "", []string{"check", good}},
		"superfluous argument":     {2, "patchbay.yaml", []string{"healthcheck", "patchbay.yaml"}},
		"two files":                {2, "found 2: a.yaml b.yaml", []string{"serve", "a.yaml", "b.yaml"}},
		"a file in two ways":       {2, "found a.yaml and --config b.yaml", []string{"demo", "a.yaml", "--config", "b.yaml"}},
		"no key to revoke":         {2, "the id of the key is missing", []string{"keys", "revoke"}},
		"two keys to revoke":       {2, "want the id of one key, found 2", []string{"keys", "revoke", "a", "b"}},
		"unknown shell":            {2, `unknown shell "nosh" (known: bash, fish, powershell, zsh)`, []string{"completion", "nosh"}},
		"known shell":              {0, "", []string{"completion", "bash"}},
		"no shell":                 {0, "", []string{"completion"}},
		"override without value":   {2, "--set number 2: want key=value", []string{"serve", "--set", "log.level=info", "--set", "limits.max-attempts"}},
		"no override to check":     {2, "--set number 1: want key=value", []string{"check", "--set", "limits"}},
		"address without scheme":   {2, "want an address such as", []string{"healthcheck", "--url", "127.0.0.1:8080"}},
		"two addresses":            {2, "url", []string{"healthcheck", "--url", "http://127.0.0.1:1", "--listen", "127.0.0.1:1"}},
		"nobody at the address":    {1, "patchbay: no gateway answers at http://127.0.0.1:1: nothing listens there\n", []string{"healthcheck", "--url", "http://127.0.0.1:1/"}},
		"bad duration":             {2, "--timeout", []string{"healthcheck", "--timeout", "soon"}},
		"missing file":             {3, "nowhere.yaml does not exist", []string{"serve", "--config", "nowhere.yaml"}},
		"missing file, check":      {3, "nowhere.yaml does not exist", []string{"check", "--config", "nowhere.yaml"}},
		"missing file, serve":      {3, "nowhere.yaml does not exist", []string{"serve", "nowhere.yaml"}},
		"missing file, demo":       {3, "nowhere.yaml does not exist", []string{"demo", "nowhere.yaml"}},
		"bad file, no flag":        {3, "bad.yaml:1:1", []string{"serve", bad}},
		"bad file":                 {3, "bad.yaml:1:1", []string{"serve", "--config", bad}},
		"bad override":             {3, "limits.max-attempts", []string{"serve", "--set", "limits.max-attempts=0"}},
		"all interfaces":           {3, "refusing to listen on 0.0.0.0:0", []string{"serve", "--listen", "0.0.0.0:0"}},
		"all interfaces, IPv6":     {3, "refusing to listen on [::]:0", []string{"serve", "--listen", "[::]:0"}},
		"no host":                  {3, "refusing to listen on :0", []string{"serve", "--listen", ":0"}},
		"another machine's":        {3, "refusing to listen", []string{"check", "--listen", "192.168.1.1:80"}},
		"demo for everybody":       {3, "refusing to listen", []string{"demo", "--listen", "0.0.0.0:0"}},
		"port in use":              {7, taken.Addr().String() + " is in use", []string{"serve", "--listen", taken.Addr().String()}},
		"port in use, demo":        {7, "--listen", []string{"demo", "--listen", taken.Addr().String()}},
	} {
		t.Run(name, func(t *testing.T) {
			code, stdout, stderr := runHere(t, test.args...)
			if code != test.code {
				t.Errorf("exit code %d, want %d: %s%s", code, test.code, stdout, stderr)
			}
			if !strings.Contains(stderr, test.says) {
				t.Errorf("it does not say %q: %s", test.says, stderr)
			}
			if code == exitUsage && (strings.Count(stderr, "\n") != 1 || stdout != "") {
				t.Errorf("more than a line: %q %q", stdout, stderr)
			}
			if code == exitOK && (stdout == "" || stderr != "") {
				t.Errorf("stdout %q, stderr %q", stdout, stderr)
			}
		})
	}
}

func TestListeningForEverybodyIsPossibleOnPurpose(t *testing.T) {
	for _, setting := range []string{"security.allow-open=true", "security.enabled=true"} {
		if code, stdout, stderr := runHere(t, "check", "--listen", "0.0.0.0:80", "--set", setting); code != exitOK {
			t.Errorf("%s: %d %s%s", setting, code, stdout, stderr)
		}
	}
	for _, listen := range []string{"localhost:80", "127.9.9.9:80", "[::1]:80"} {
		if code, stdout, stderr := runHere(t, "check", "--listen", listen); code != exitOK {
			t.Errorf("%s: %d %s%s", listen, code, stdout, stderr)
		}
	}
	c := serving(t, "--set", "security.allow-open=true")
	c.waitFor("security.allow-open is set")
}

func TestHelpOfEveryVerb(t *testing.T) {
	for _, verb := range []string{"serve", "demo", "check", "healthcheck", "version"} {
		for _, args := range [][]string{{verb, "--help"}, {verb, "-h"}, {"help", verb}} {
			code, stdout, stderr := runHere(t, args...)
			if code != exitOK || stderr != "" || !strings.Contains(stdout, "Examples:\n  patchbay "+verb) {
				t.Errorf("%v: %d %q\n%s", args, code, stderr, stdout)
			}
		}
	}
	for _, args := range [][]string{nil, {"-h"}, {"help"}, {"--help"}} {
		code, stdout, _ := runHere(t, args...)
		for _, part := range []string{"Examples:\n  patchbay demo", "serve", "check", "healthcheck", "version", "Exit codes: 0 ok, 1 failed, 2 wrong usage, 3 "} {
			if code != exitOK || !strings.Contains(stdout, part) {
				t.Errorf("%v: %d, no %q in\n%s", args, code, part, stdout)
			}
		}
	}
}

func TestVersion(t *testing.T) {
	_, plain, _ := runHere(t, "version")
	if !strings.HasPrefix(plain, "patchbay "+version) || strings.Count(plain, "\n") != 1 {
		t.Errorf("%q", plain)
	}
	_, text, _ := runHere(t, "version", "--json")
	var fields map[string]string
	if err := json.Unmarshal([]byte(text), &fields); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"version", "commit", "date", "go", "platform"} {
		if _, there := fields[name]; !there {
			t.Errorf("no %s in %s", name, text)
		}
	}
	if fields["version"] != version || !strings.HasPrefix(fields["go"], "go1.") || !strings.Contains(fields["platform"], "/") {
		t.Errorf("%s", text)
	}
}

func TestCheckListsEveryProblem(t *testing.T) {
	file := filepath.Join(t.TempDir(), "many.yaml")
	gatewaytest.WriteFile(t, file, `server: {listen: 127.0.0.1:80, shutdown-grase: 1s}
limits: {max-attempts: 0, json-body: lots}
services:
  chat:
    load-balancer: round-robbin
    adapter: openia
    instances:
      - {name: a, base-url: ftp://x}
      - {name: b, base-url: "http://x", api-key: "${UNSET_VARIABLE}", weight: -1}
      - {name: b}
quota: {enabled: maybe}
`)
	code, stdout, stderr := runHere(t, "check", "--config", file)
	if code != exitConfig || stdout != "" {
		t.Errorf("%d %q", code, stdout)
	}
	for _, place := range []string{
		":1:", "shutdown-grase", "shutdown-grace", ":2:", "max-attempts", "json-body", ":5:", "round-robbin", ":6:", "openia",
		":8:", ":9:", "UNSET_VARIABLE", "weight", ":10:", "base-url", ":11:", "enabled",
	} {
		if !strings.Contains(stderr, place) {
			t.Errorf("nothing about %s in\n%s", place, stderr)
		}
	}
	if lines := strings.Count(stderr, file+":"); lines < 10 {
		t.Errorf("%d problems with a place, want at least 10:\n%s", lines, stderr)
	}
}

func TestHealthcheck(t *testing.T) {
	r := gatewaytest.Start(t, "")
	code, stdout, stderr := runHere(t, "healthcheck", "--listen", r.Address())
	if code != exitOK || stdout != "ready\n" || stderr != "" {
		t.Errorf("%d %q %q", code, stdout, stderr)
	}
	_, port, _ := net.SplitHostPort(r.Address())
	if code, _, stderr := runHere(t, "healthcheck", "--listen", "0.0.0.0:"+port); code != exitOK {
		t.Errorf("a wildcard is not asked over loopback: %d %s", code, stderr)
	}
	for _, url := range []string{"http://" + r.Address(), "http://" + r.Address() + "/"} {
		if code, stdout, stderr := runHere(t, "healthcheck", "--url", url); code != exitOK || stdout != "ready\n" {
			t.Errorf("%s: %d %q %q", url, code, stdout, stderr)
		}
	}
	r.Actuator.Drain()
	if code, _, stderr := runHere(t, "healthcheck", "--listen", r.Address()); code != exitFailed || !strings.Contains(stderr, "not ready") {
		t.Errorf("%d %q", code, stderr)
	}
	t.Run("somebody who never answers", func(t *testing.T) {
		silent, err := new(net.ListenConfig).Listen(gatewaytest.Deadline(t), "tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer silent.Close()
		if code, _, _ := runHere(t, "healthcheck", "--listen", silent.Addr().String(), "--timeout", "50ms"); code != exitFailed {
			t.Errorf("exit code %d", code)
		}
	})
}

func TestServeWithoutAConfigurationIsUp(t *testing.T) {
	t.Parallel()
	c := serving(t)
	for _, path := range []string{"/actuator/health", "/actuator/health/readiness", "/actuator/health/liveness"} {
		if answer := c.ask(http.MethodGet, path, ""); answer.Status != 200 || !strings.Contains(answer.Body, `"status":"UP"`) {
			t.Errorf("%s: %d %s", path, answer.Status, answer.Body)
		}
	}
	c.signal(syscall.SIGTERM)
	c.exits(exitOK)
}

func TestInterruptStopsToo(t *testing.T) {
	t.Parallel()
	c := serving(t)
	c.signal(syscall.SIGINT)
	c.exits(exitOK)
}

func TestDemoSaysWhatToDo(t *testing.T) {
	t.Parallel()
	c := startChild(t, "demo", "--listen", "127.0.0.1:0")
	c.waitFor("Ctrl-C stops")
	said := c.stderr.String()
	_, rest, found := strings.Cut(said, "curl http://")
	address, _, _ := strings.Cut(rest, "/")
	_, rest, _ = strings.Cut(rest, "-d '")
	body, _, quoted := strings.Cut(rest, "'")
	if !found || !quoted {
		t.Fatalf("no command to try in\n%s", said)
	}
	request, err := http.NewRequestWithContext(gatewaytest.Deadline(t), http.MethodPost, "http://"+address+"/v1/chat/completions", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	response, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Do(request)
	if err != nil {
		t.Fatal(err)
	}
	if answer := gatewaytest.ReadReply(response); answer.Status != 200 || !strings.Contains(answer.Body, `"content":"`) {
		t.Errorf("%d %s", answer.Status, answer.Body)
	}
	c.signal(syscall.SIGHUP) // there is no file, so there is nothing to lose
	c.waitFor("nothing changed")
	c.signal(syscall.SIGTERM)
	c.exits(exitOK)
	if left, _ := filepath.Glob(filepath.Join(strings.TrimPrefix(c.command.Env[2], "TMPDIR="), "*")); len(left) > 0 {
		t.Errorf("the demo left %v behind", left)
	}
}

// gateChild is a process whose only backend is a gate, with one open stream
// that has its first event.
func gateChild(t *testing.T, settings string) (*child, *gatewaytest.HeldBackend, *gatewaytest.EventReader) {
	t.Helper()
	g := gatewaytest.StartHeldBackend(t)
	file := filepath.Join(t.TempDir(), "patchbay.yaml")
	gatewaytest.WriteFile(t, file, gatewaytest.ChatYAML(gatewaytest.Instance("m", g.URL))+settings)
	c := serving(t, "--config", file)
	events := c.stream(gatewaytest.StreamHi)
	if first, err := events.Next(); err != nil || first != gatewaytest.FirstChunk {
		t.Fatalf("the first event: %q, %v", first, err)
	}
	return c, g, events
}

func TestStopLetsAStreamFinish(t *testing.T) {
	t.Parallel()
	c, g, events := gateChild(t, "")
	c.signal(syscall.SIGTERM)
	gatewaytest.Eventually(t, "readiness is refused", func() bool { return c.ask(http.MethodGet, "/actuator/health/readiness", "").Status == 503 })
	if answer := c.ask(http.MethodGet, "/actuator/health/liveness", ""); answer.Status != 200 {
		t.Errorf("not alive while it stops: %d", answer.Status)
	}
	select {
	case <-c.exited:
		t.Fatal("it did not wait for the stream")
	default:
	}
	close(g.Open)
	if rest, err := events.Rest(); err != nil || !slices.Equal(rest, []string{gatewaytest.LastChunk, "[DONE]"}) {
		t.Errorf("the rest of the stream: %q, %v", rest, err)
	}
	c.exits(exitOK)
	if !strings.Contains(c.stderr.String(), `"msg":"stopped"`) {
		t.Error("it does not say that it stopped")
	}
}

func TestStopEndsAStreamWhenTheGraceIsOver(t *testing.T) {
	t.Parallel()
	c, _, events := gateChild(t, "server: {shutdown-grace: 200ms}\n")
	c.signal(syscall.SIGTERM)
	rest, err := events.Rest()
	if err != nil || len(rest) != 1 {
		t.Fatalf("the rest of the stream: %q, %v", rest, err)
	}
	if fault := gatewaytest.ErrorOf(t, rest[0]); fault.Code != "service_unavailable" || fault.Type != "service_unavailable" {
		t.Errorf("the error is %s", rest[0])
	}
	c.exits(exitOK)
}

func TestStopEndsAPlainRequestWhenTheGraceIsOver(t *testing.T) {
	t.Parallel()
	b := gatewaytest.StartBackend(t, simulator.Step{Hang: true})
	r := gatewaytest.Start(t, gatewaytest.PoolYAML(b))
	answers := make(chan gatewaytest.Reply, 1)
	go func() {
		response, err := r.Client.Do(r.Request(gatewaytest.Deadline(t), http.MethodPost, "/v1/chat/completions", gatewaytest.PlainHi))
		if err != nil {
			answers <- gatewaytest.Reply{Err: err}
			return
		}
		answers <- gatewaytest.ReadReply(response)
	}()
	if err := b.WaitRequests(gatewaytest.Deadline(t), 1); err != nil {
		t.Fatal(err)
	}
	r.Halt()
	answer := <-answers
	if answer.Status == 0 {
		t.Fatalf("no answer: %v", answer.Err)
	}
	answer.FailsWith(t, 503, "service_unavailable", "service_unavailable", "")
	if answer.Header.Get("Retry-After") == "" {
		t.Error("no Retry-After")
	}
}

func TestSecondSignalEndsAtOnce(t *testing.T) {
	t.Parallel()
	c, _, _ := gateChild(t, "server: {shutdown-grace: 10m}\n")
	c.signal(syscall.SIGTERM)
	c.waitFor(`"msg":"stopping"`)
	gatewaytest.Eventually(t, "a second signal ends it, long before the grace is over", func() bool {
		c.signal(syscall.SIGTERM)
		select {
		case <-c.exited:
			return true
		default:
			return false
		}
	})
	c.exits(exitFailed)
}

// timeout(1) signals the process and then its group, which is one wish and not
// two.
func TestRepeatedSignalIsOne(t *testing.T) {
	t.Parallel()
	for name, signals := range map[string]struct {
		after []time.Duration // from the first
		ends  time.Duration
	}{
		"at once":         {[]time.Duration{0, 0}, 0},
		"within a second": {[]time.Duration{time.Millisecond, 900 * time.Millisecond}, 0},
		"after a second":  {[]time.Duration{time.Millisecond, time.Second}, time.Second},
		"much later":      {[]time.Duration{time.Minute}, time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				stopped, sent := make(chan struct{}), make(chan os.Signal, 4)
				begun := time.Now()
				go func() {
					for _, after := range signals.after {
						<-time.After(after - time.Since(begun))
						sent <- syscall.SIGTERM
					}
					<-time.After(time.Hour - time.Since(begun))
					close(stopped)
				}()
				sig := awaitStop(stopped, sent)
				if took := time.Since(begun); signals.ends == 0 && (sig != nil || took != time.Hour) || signals.ends > 0 && (sig != syscall.SIGTERM || took != signals.ends) {
					t.Errorf("ended by %v after %v", sig, took)
				}
				<-stopped
			})
		})
	}
}

// Lines of requests are written together, and the last of them before the end.
func TestStopLosesNoLineOfTheAccessLog(t *testing.T) {
	t.Parallel()
	c := serving(t)
	const requests = 100
	for range requests {
		if answer := c.ask(http.MethodGet, "/v1/models", ""); answer.Status != 200 {
			t.Fatalf("status %d", answer.Status)
		}
	}
	c.signal(syscall.SIGTERM)
	c.exits(exitOK)
	if n := gatewaytest.CountLines(c.stderr.String(), `"path":"/v1/models"`); n != requests {
		t.Errorf("%d requests are logged, want %d", n, requests)
	}
}

// Logs that nobody looks at are JSON, line by line, and hold neither what was
// said nor any key.
func TestLogsAreJSONWithoutWordsOrKeys(t *testing.T) {
	t.Parallel()
	const prompt, key, callers, answered = "canary-of-the-prompt", "sk-canary-of-the-backend", "canary-of-the-caller", "canary-of-the-answer"
	b := gatewaytest.StartBackend(t)
	b.Script(
		simulator.Step{Text: answered}, simulator.Step{Text: answered}, simulator.Step{Status: 500, Body: simulator.ErrorText(prompt + key)},
		simulator.Step{Body: simulator.ErrorText(prompt + key)}, simulator.Step{Text: answered + " b c", Stop: simulator.StopReset, After: 2})
	file := filepath.Join(t.TempDir(), "patchbay.yaml")
	gatewaytest.WriteFile(t, file, gatewaytest.ChatYAML(gatewaytest.Instance("m", b.URL(), "api-key: "+key))+"log: {level: debug}\n")
	c := serving(t, "--config", file)
	for _, body := range []string{gatewaytest.PlainHi, gatewaytest.StreamHi, gatewaytest.PlainHi, gatewaytest.PlainHi, gatewaytest.StreamHi, `{"model":"x","messages":"hi"}`, `{"model":"hi",` + gatewaytest.SomeMessages + `}x`} {
		ctx := gatewaytest.Deadline(t)
		request, err := http.NewRequestWithContext(ctx, http.MethodPost, c.url()+"/v1/chat/completions?key="+callers, strings.NewReader(strings.ReplaceAll(body, `"hi"`, `"`+prompt+`"`)))
		if err != nil {
			t.Fatal(err)
		}
		request.Header.Set("Authorization", "Bearer "+callers)
		request.Header.Set("X-Api-Key", callers)
		response, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Do(request)
		if err != nil {
			t.Fatal(err)
		}
		gatewaytest.ReadReply(response)
	}
	gatewaytest.WriteFile(t, file, gatewaytest.ChatYAML(gatewaytest.Instance("m", b.URL(), "api-key: ['"+key+"']", `headers: {"bad name": `+key+`}`)))
	c.waitFor("the configuration file has mistakes")
	c.signal(syscall.SIGTERM)
	c.exits(exitOK)
	log := c.stderr.String()
	gatewaytest.ContainsNone(t, log, prompt, key, callers, answered)
	if gatewaytest.CountLines(log, `"msg":"request"`) != 7 {
		t.Errorf("%d requests are logged, want 7", gatewaytest.CountLines(log, `"msg":"request"`))
	}
	for line := range strings.Lines(log) {
		var entry map[string]jsontext.Value
		if err := json.Unmarshal([]byte(line), &entry); err != nil || entry["ts"] == nil || entry["level"] == nil || entry["msg"] == nil {
			t.Errorf("no entry of a log (%v): %s", err, line)
		}
	}
	for _, part := range []string{`"request_id":"req_`, `"service":"chat"`, `"model":"m"`, `"status":200`, `"duration_ms":`, `"ttft_ms":`, `"prompt_tokens":`, `"attempts":1`} {
		if !strings.Contains(log, part) {
			t.Errorf("the log has no %s", part)
		}
	}
}
