package main

import (
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/go-json-experiment/json"

	"github.com/patchbay-ai/patchbay/internal/gateway/gatewaytest"
	"github.com/patchbay-ai/patchbay/internal/see/logs"
)

func TestCheckCountsInstances(t *testing.T) {
	dir := t.TempDir()
	for content, want := range map[string]string{
		"": ": 0 instances\n",
		gatewaytest.ChatYAML(gatewaytest.Instance("a", "http://a")):                                        ": 1 instance\n",
		gatewaytest.ChatYAML(gatewaytest.Instance("a", "http://a"), gatewaytest.Instance("b", "http://b")): ": 2 instances\n",
	} {
		file := filepath.Join(dir, "patchbay.yaml")
		gatewaytest.WriteFile(t, file, content)
		warning := ""
		if content == "" {
			warning = "warning: " + file + " says nothing: everything has its default, and there are no instances\n"
		}
		if _, stdout, stderr := runHere(t, "check", file); stdout != warning+file+" is good"+want {
			t.Errorf("%q %q, want %q", stdout, stderr, want)
		}
	}
}

func TestCheckSaysWhatWasProbablyMeant(t *testing.T) {
	file := filepath.Join(t.TempDir(), "patchbay.yaml")
	for content, want := range map[string]string{
		"log:\n\tlevel: info\n":                   file + ":2:1  not valid YAML: tabs cannot indent; use spaces",
		"services: {chat: {adapter: olama}}\n":    `did you mean "ollama"?`,
		"sevrices: {}\n":                          `did you mean "services"?`,
		"services: {chat: {adapter: nothing1}}\n": "(known: anthropic",
	} {
		gatewaytest.WriteFile(t, file, content)
		if code, _, stderr := runHere(t, "check", file); code != exitConfig || !strings.Contains(stderr, want) {
			t.Errorf("%q: %d %s, want %s", content, code, stderr, want)
		}
	}
	if code, _, stderr := runHere(t, "check", "--set", "foo.bar=1"); code != exitConfig || strings.Contains(stderr, "did you mean") {
		t.Errorf("%d %s", code, stderr)
	}
}

// Security without a key closes /v1, which is worth a word. So is an open one that others reach.
func TestSecurityWithoutAKeyIsWarnedOf(t *testing.T) {
	const warning = "security is on and "
	key := "security.keys=[{id: a, key-sha256: " + gatewaytest.HashOf("key") + "}]"
	for name, test := range map[string]struct {
		warns bool
		args  []string
	}{
		"beyond loopback":              {true, []string{"--listen", "0.0.0.0:0", "--set", "security.enabled=true"}},
		"on loopback":                  {true, []string{"--listen", "127.0.0.1:0", "--set", "security.enabled=true"}},
		"open beyond loopback":         {true, []string{"--listen", "0.0.0.0:0", "--set", "security.enabled=true", "--set", "security.allow-keyless=true"}},
		"open on loopback":             {false, []string{"--listen", "127.0.0.1:0", "--set", "security.enabled=true", "--set", "security.allow-keyless=true"}},
		"with a key":                   {false, []string{"--listen", "0.0.0.0:0", "--set", "security.enabled=true", "--set", key}},
		"without security, on purpose": {false, []string{"--listen", "0.0.0.0:0", "--set", "security.allow-open=true"}},
	} {
		t.Run(name, func(t *testing.T) {
			code, stdout, stderr := runHere(t, append([]string{"check"}, test.args...)...)
			if code != exitOK || stderr != "" || strings.Contains(stdout, "warning: "+warning) != test.warns {
				t.Errorf("check: %d %q %q", code, stdout, stderr)
			}
			c := startChild(t, append([]string{"serve"}, test.args...)...)
			c.waitFor(`"msg":"listening"`)
			if warned := gatewaytest.CountLines(c.stderr.String(), `"level":"WARN"`, warning+"there is no key") == 1; warned != test.warns {
				t.Errorf("serve:\n%s", c.stderr.String())
			}
			if answer := c.ask(http.MethodGet, "/actuator/health", ""); answer.Status != 200 || strings.Contains(answer.Body, warning) {
				t.Errorf("health: %d %s", answer.Status, answer.Body)
			}
		})
	}
	t.Run("with an issued key", func(t *testing.T) {
		dir := t.TempDir()
		if code, _, stderr := runHere(t, "keys", "create", "--data-dir", dir); code != exitOK {
			t.Fatal(stderr)
		}
		c := startChild(t, "serve", "--listen", "0.0.0.0:0", "--set", "security.enabled=true", "--data-dir", dir)
		c.waitFor(`"msg":"listening"`)
		if strings.Contains(c.stderr.String(), warning+"there is no key") {
			t.Errorf("warned of nothing:\n%s", c.stderr.String())
		}
	})
}

// The demo keeps its data only where it was told to.
func TestDemoKeepsItsDataWhereItIsTold(t *testing.T) {
	t.Run("--help", func(t *testing.T) {
		if _, stdout, _ := runHere(t, "demo", "--help"); strings.Contains(stdout, "./data") || !strings.Contains(stdout, "temporary one") {
			t.Errorf("%s", stdout)
		}
		if _, stdout, _ := runHere(t, "serve", "--help"); !strings.Contains(stdout, "(default ./data)") {
			t.Errorf("%s", stdout)
		}
	})
	dir := t.TempDir()
	file := filepath.Join(t.TempDir(), "patchbay.yaml")
	gatewaytest.WriteFile(t, file, "server: {data-dir: "+quoteYAML(filepath.Join(dir, "file"))+"}\n")
	for name, given := range map[string]struct{ args, env []string }{
		"flag":        {[]string{"--data-dir", filepath.Join(dir, "flag")}, nil},
		"set":         {[]string{"--set", "server.data-dir=" + filepath.Join(dir, "set")}, nil},
		"environment": {nil, []string{"PATCHBAY_SERVER_DATA_DIR=" + filepath.Join(dir, "environment")}},
		"file":        {[]string{file}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			c := startChildWith(t, given.env, append([]string{"demo", "--listen", "127.0.0.1:0"}, given.args...)...)
			c.waitFor("Ctrl-C stops")
			if !strings.Contains(c.stderr.String(), "/docs/api") {
				t.Errorf("it does not say where the API is described:\n%s", c.stderr.String())
			}
			if !strings.Contains(c.stderr.String(), "Console   http://127.0.0.1:") {
				t.Errorf("it does not say where the console is:\n%s", c.stderr.String())
			}
			c.signal(syscall.SIGTERM)
			c.exits(exitOK)
			if _, err := os.Stat(gatewaytest.VersionFile(filepath.Join(dir, name), 1)); err != nil {
				t.Errorf("nothing is there: %v", err)
			}
			if left, _ := filepath.Glob(filepath.Join(strings.TrimPrefix(c.command.Env[2], "TMPDIR="), "*")); len(left) > 0 {
				t.Errorf("the demo made %v", left)
			}
		})
	}
}

func TestLookingForKeysMakesNothing(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "nowhere")
	for _, args := range [][]string{{"keys", "list"}, {"keys", "revoke", "team-a"}} {
		code, _, stderr := runHere(t, append(args, "--data-dir", dir)...)
		if code != exitFailed || !strings.Contains(stderr, "there is no data directory at "+dir) {
			t.Errorf("%v: %d %s", args, code, stderr)
		}
		if _, err := os.Stat(dir); err == nil {
			t.Errorf("%v made %s", args, dir)
		}
	}
	if code, _, stderr := runHere(t, "keys", "create", "--data-dir", dir); code != exitOK {
		t.Errorf("%d %s", code, stderr)
	}
}

// silent is somebody who takes connections and never answers.
func silent(t *testing.T) (address string, taken <-chan struct{}) {
	t.Helper()
	listener, err := new(net.ListenConfig).Listen(gatewaytest.Deadline(t), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	one := make(chan struct{})
	go func() {
		if conn, err := listener.Accept(); err == nil {
			close(one)
			_, _ = io.Copy(io.Discard, conn)
			_ = conn.Close()
		}
	}()
	return listener.Addr().String(), one
}

func TestInterruptEndsTheVerbsThatAsk(t *testing.T) {
	t.Parallel()
	for name, args := range map[string]func(address string) []string{
		"keys":        func(address string) []string { return []string{"keys", "list", "--url", "http://" + address} },
		"healthcheck": func(address string) []string { return []string{"healthcheck", "--listen", address, "--timeout", "10m"} },
	} {
		t.Run(name, func(t *testing.T) {
			address, taken := silent(t)
			c := startChild(t, args(address)...)
			<-taken
			c.signal(syscall.SIGINT)
			c.exits(exitFailed)
			if said := c.stderr.String(); !strings.HasPrefix(said, "patchbay: no gateway answers at ") || !strings.HasSuffix(said, ": interrupted\n") {
				t.Errorf("it says %q", said)
			}
		})
	}
}

// A gateway without instances says what to do, and that works as it is said.
func TestServeWithoutInstancesSaysWhatToDo(t *testing.T) {
	t.Parallel()
	b := gatewaytest.StartBackend(t)
	c := startChild(t, "serve", "--listen", "0.0.0.0:0", "--set", "security.allow-open=true")
	c.waitFor("no instances are configured")
	if !strings.HasPrefix(c.url(), "http://127.0.0.1:") {
		t.Errorf("%s is no address to click on", c.url())
	}
	for line := range strings.Lines(c.stderr.String()) {
		var said map[string]any
		if err := json.Unmarshal([]byte(line), &said); err != nil {
			t.Fatal(err)
		}
		if said["msg"] == "listening" {
			if listen, _ := said["listen"].(string); dialable(listen) == listen || "http://"+dialable(listen) != c.url() {
				t.Errorf("it listens on %q, and says %s", listen, c.url())
			}
			if said["docs"] != c.url()+"/docs/api" || said["data"] != filepath.Join(c.command.Dir, "data") {
				t.Errorf("%s", line)
			}
		}
		message, _ := said["msg"].(string)
		if !strings.HasPrefix(message, "no instances are configured") {
			continue
		}
		command, body, found := strings.Cut(message[strings.Index(message, "curl "):], " -d '")
		if !found || !strings.Contains(message, "services.chat.instances") {
			t.Fatalf("no command in %q", message)
		}
		body = strings.Replace(strings.TrimSuffix(body, "'"), "http://127.0.0.1:11434", b.URL(), 1)
		if answer := c.ask(http.MethodPost, strings.TrimPrefix(command, "curl "+c.url()), body); answer.Status != http.StatusCreated {
			t.Errorf("%d %s", answer.Status, answer.Body)
		}
	}
	if answer := c.ask(http.MethodGet, "/", ""); answer.Status != 200 || !strings.Contains(answer.Body, "/docs/api") {
		t.Errorf("GET /: %d %s", answer.Status, answer.Body)
	}
	if answer := c.ask(http.MethodGet, "/docs/api", ""); answer.Status != 200 {
		t.Errorf("GET /docs/api: %d", answer.Status)
	}
	for _, lang := range []string{"en", "zh"} {
		contents := c.ask(http.MethodGet, "/docs?lang="+lang, "")
		pages := regexp.MustCompile(`<li><a href="(/docs/[a-z-]+\?lang=`+lang+`)"`).FindAllStringSubmatch(contents.Body, -1)
		if len(pages) < 5 {
			t.Errorf("GET /docs in %s: %d %s", lang, contents.Status, contents.Body)
		}
		for _, page := range pages {
			if answer := c.ask(http.MethodGet, page[1], ""); answer.Status != 200 || !strings.Contains(answer.Body, `data-served="`+lang+`"`) {
				t.Errorf("GET %s: %d", page[1], answer.Status)
			}
		}
	}
	c.signal(syscall.SIGTERM)
	c.exits(exitOK)

	file := filepath.Join(t.TempDir(), "patchbay.yaml")
	gatewaytest.WriteFile(t, file, "services: {chat: {instances: [{models: [none-of-these*], base-url: '"+b.URL()+"'}]}}\n")
	searching := startChild(t, "serve", file, "--listen", "127.0.0.1:0")
	searching.waitFor("no models have been found yet")
	if strings.Contains(searching.stderr.String(), "no instances are configured") {
		t.Errorf("an instance is configured:\n%s", searching.stderr.String())
	}
	gatewaytest.WriteFile(t, file, gatewaytest.PoolYAML(b))
	if c := serving(t, file); strings.Contains(c.stderr.String(), "no instances are configured") || strings.Contains(c.stderr.String(), `"listen":`) {
		t.Errorf("it has an instance, and listens where it says:\n%s", c.stderr.String())
	}
}

func TestExitCodesTellWrongUsageFromFailure(t *testing.T) {
	t.Parallel()
	missing := filepath.Join(t.TempDir(), "missing")
	for _, c := range []struct {
		code int
		says string
		args []string
	}{
		{exitUsage, "--url", []string{"bench", "--url", "localhost"}},
		{exitConfig, "does not exist", []string{"bench", "--config", missing}},
		{exitUsage, "--url", []string{"keys", "list", "--url", "localhost"}},
		{exitUsage, "--url", []string{"tokens", "list", "--url", "localhost"}},
		{exitUsage, "the name of the file is missing", []string{"prices", "import"}},
		{exitFailed, "no such file", []string{"prices", "import", missing}},
	} {
		if code, _, stderr := runFor(t, c.args...); code != c.code || !strings.Contains(stderr, c.says) {
			t.Errorf("%q: exit code %d, want %d, saying %q:\n%s", c.args, code, c.code, c.says, stderr)
		}
	}
}

func TestFormOfTheLog(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		wanted     logs.LogFormat
		isTerminal bool
		env        []string
		want       logs.Format
	}{
		{logs.FormatAuto, false, nil, logs.JSON},
		{logs.FormatAuto, true, nil, logs.Coloured},
		{logs.FormatAuto, true, []string{"NO_COLOR="}, logs.Coloured},
		{logs.FormatAuto, true, []string{"NO_COLOR=1"}, logs.Text},
		{logs.FormatAuto, true, []string{"TERM=dumb"}, logs.Text},
		{logs.FormatText, true, nil, logs.Coloured},
		{logs.FormatText, true, []string{"NO_COLOR=1"}, logs.Text},
		{logs.FormatText, false, nil, logs.Text},
		{logs.FormatJSON, true, nil, logs.JSON},
	} {
		if got := formatOf(c.wanted, c.isTerminal, c.env); got != c.want {
			t.Errorf("%v on a terminal %v with %v: %v, want %v", c.wanted, c.isTerminal, c.env, got, c.want)
		}
	}
}
