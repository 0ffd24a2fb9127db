package main

import (
	"crypto/sha256"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/patchbay-ai/patchbay/internal/gateway"
	"github.com/patchbay-ai/patchbay/internal/gateway/gatewaytest"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
	"github.com/patchbay-ai/patchbay/internal/testing/simulator"
)

func TestSecondProcessOnTheSameDataDirectoryRefuses(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	first := serving(t, "--data-dir", dir)
	second := startChild(t, "serve", "--listen", "127.0.0.1:0", "--data-dir", dir)
	second.exits(exitFailed)
	if !strings.Contains(second.stderr.String(), dir) || !strings.Contains(second.stderr.String(), "in use") {
		t.Errorf("it says %s", second.stderr.String())
	}
	first.kill() // the lock of a crashed process is nobody's
	third := serving(t, "--data-dir", dir)
	third.signal(syscall.SIGTERM)
	third.exits(exitOK)
}

// crashRig is a process that is killed and started again with one directory.
type crashRig struct {
	t         *testing.T
	dir, file string
	contents  map[int][sha256.Size]byte // of every version that was ever seen
	newest    int
}

// look checks that no version was changed, lost or numbered twice.
func (c *crashRig) look() {
	c.t.Helper()
	paths, err := filepath.Glob(filepath.Join(c.dir, "versions", "0*.json"))
	if err != nil {
		c.t.Fatal(err)
	}
	now := map[int][sha256.Size]byte{}
	for _, path := range paths {
		number, err := strconv.Atoi(strings.TrimSuffix(filepath.Base(path), ".json"))
		if err != nil {
			c.t.Fatal(err)
		}
		now[number] = sha256.Sum256(gatewaytest.ReadFile(c.t, path))
	}
	for number, content := range c.contents {
		if now[number] != content {
			c.t.Errorf("version %d is not what it was", number)
		}
	}
	for number := range now {
		if _, known := c.contents[number]; !known && number <= c.newest {
			c.t.Errorf("version %d appeared after version %d", number, c.newest)
		}
	}
	c.contents = now
	c.newest = max(c.newest, slices.Max(append(slices.Collect(maps.Keys(now)), 0)))
}

// kill -9 at any moment of a change leaves the old state or the new one.
func TestCrashesDuringChangesLoseNothing(t *testing.T) {
	t.Parallel()
	c := &crashRig{t: t, dir: t.TempDir(), file: filepath.Join(t.TempDir(), "patchbay.yaml"), contents: map[int][sha256.Size]byte{}}
	content := func(round int) string {
		return gatewaytest.ChatYAML(gatewaytest.Instance(fmt.Sprintf("model-%d", round), simulator.DownURL))
	}
	gatewaytest.WriteFile(t, c.file, content(0))
	written := regexp.MustCompile(`"version":(\d+)`)
	last := 0
	for round := 1; round <= 10; round++ {
		p := serving(t, "--config", c.file, "--data-dir", c.dir)
		c.look()
		names := gatewaytest.Models(t, p.ask(http.MethodGet, "/v1/models", ""))
		if want := fmt.Sprintf("model-%d", round-1); !slices.Equal(names, []string{want}) { // the file was replaced before the crash
			t.Errorf("round %d boots with %v, want %s", round, names, want)
		}
		found := written.FindAllStringSubmatch(p.stderr.String(), -1)
		version, _ := strconv.Atoi(found[len(found)-1][1])
		if version < last {
			t.Errorf("round %d boots with version %d after version %d", round, version, last)
		}
		last = version
		replaceFile(t, c.file, content(round))
		p.signal(syscall.SIGHUP)
		switch round % 4 { // die at once, amid the writing, after it, and when it is in force
		case 1:
			gatewaytest.Eventually(t, "a version is being written", func() bool {
				paths, _ := filepath.Glob(filepath.Join(c.dir, "versions", ".new-*"))
				return len(paths) > 0 || strings.Contains(p.stderr.String(), "configuration reloaded")
			})
		case 2:
			gatewaytest.Eventually(t, "a version is written", func() bool {
				_, err := os.Stat(gatewaytest.VersionFile(c.dir, c.newest+1))
				return err == nil
			})
		case 3:
			p.waitFor("configuration reloaded")
		}
		p.kill()
		c.look()
	}
	p := serving(t, "--config", c.file, "--data-dir", c.dir)
	c.look()
	if names := gatewaytest.Models(t, p.ask(http.MethodGet, "/v1/models", "")); !slices.Equal(names, []string{"model-10"}) {
		t.Errorf("in the end there are %v", names)
	}
	if strings.Contains(p.stderr.String(), `"level":"WARN"`) || strings.Contains(p.stderr.String(), `"level":"ERROR"`) {
		t.Errorf("a crash damaged something:\n%s", p.stderr.String())
	}
	left, _ := filepath.Glob(filepath.Join(c.dir, "versions", ".new-*"))
	if len(left) > 0 {
		t.Errorf("crashes left %v behind", left)
	}
}

// A new file takes effect for the next request and cuts no running stream, by
// itself and on SIGHUP.
func TestReloadTakesEffectWithoutCuttingStreams(t *testing.T) {
	t.Parallel()
	for name, hangUp := range map[string]bool{"when the file changes": false, "on SIGHUP": true} {
		t.Run(name, func(t *testing.T) {
			g, b := gatewaytest.StartHeldBackend(t), gatewaytest.StartBackend(t)
			file := filepath.Join(t.TempDir(), "patchbay.yaml")
			gatewaytest.WriteFile(t, file, gatewaytest.ChatYAML(gatewaytest.Instance("m", g.URL)))
			c := serving(t, "--config", file)
			events := c.stream(gatewaytest.StreamHi)
			if first, err := events.Next(); err != nil || first != gatewaytest.FirstChunk {
				t.Fatalf("the first event: %q, %v", first, err)
			}
			replaceFile(t, file, gatewaytest.PoolYAML(b)) // the instance of the running stream is gone
			if hangUp {
				c.signal(syscall.SIGHUP)
			}
			c.waitFor("configuration reloaded")
			if answer := c.ask(http.MethodPost, "/v1/chat/completions", gatewaytest.PlainHi); answer.Status != 200 {
				t.Errorf("the next request: %d %s", answer.Status, answer.Body)
			}
			if b.Stats().Arrived != 1 {
				t.Errorf("the new instance got %d requests", b.Stats().Arrived)
			}
			close(g.Open)
			if rest, err := events.Rest(); err != nil || !slices.Equal(rest, []string{gatewaytest.LastChunk, "[DONE]"}) {
				t.Errorf("the rest of the stream: %q, %v", rest, err)
			}
			if log := c.stderr.String(); gatewaytest.CountLines(log, `"msg":"configuration reloaded: added 1 (chat m@`, `changed nothing; removed 1 (chat m@`, `"version":2`) != 1 {
				t.Errorf("no second version:\n%s", log)
			}
		})
	}
}

// A file that changed while the gateway started is not overlooked. It is not parallel: its signal
// would interrupt the verbs of other tests.
func TestChangeDuringTheStartIsSeen(t *testing.T) {
	file := filepath.Join(t.TempDir(), "patchbay.yaml")
	gatewaytest.WriteFile(t, file, gatewaytest.ChatYAML(gatewaytest.Instance("old", simulator.DownURL)))
	flags := &settingFlags{file: file, dataDir: t.TempDir(), listen: "127.0.0.1:0"}
	loaded, err := flags.loadFirst()
	if err != nil {
		t.Fatal(err)
	}
	replaceFile(t, file, gatewaytest.ChatYAML(gatewaytest.Instance("new", simulator.DownURL)))
	log, end := newLog(new(gatewaytest.Buffer), loaded.Document.Log, nil)
	defer end()
	running, ended := make(chan *gateway.Gateway, 1), make(chan error, 1)
	go func() {
		ended <- runGateway(flags, loaded, log, func(g *gateway.Gateway, _ *slog.Logger) { running <- g }, nil)
	}()
	g := <-running
	defer func() {
		// The gateway takes signals now, so this one does not end the tests.
		if err := syscall.Kill(os.Getpid(), syscall.SIGTERM); err != nil {
			t.Error(err)
		}
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}()
	gatewaytest.Eventually(t, "the new file is in force", func() bool {
		return g.Current.Load().Service(schema.Chat).Find("new") != nil
	})
}

// A configuration may come from a pipe, as with --config /dev/stdin: it is read once at
// the start, and a reload does not wait for more of it.
func TestConfigurationFromAPipe(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "patchbay.yaml")
	if err := syscall.Mkfifo(file, 0o600); err != nil {
		t.Fatal(err)
	}
	written := make(chan error, 1)
	go func() {
		written <- os.WriteFile(file, []byte(gatewaytest.ChatYAML(gatewaytest.Instance("m", simulator.DownURL))), 0o600)
	}()
	flags := &settingFlags{file: file}
	loaded, err := flags.loadFirst()
	if err != nil {
		t.Fatal(err)
	}
	if err := <-written; err != nil {
		t.Fatal(err)
	}
	if instances := loaded.Document.Services[schema.Chat].Instances; len(instances) != 1 {
		t.Errorf("%d instances were read", len(instances))
	}
	if _, err := flags.loadAgain(); err == nil || !strings.Contains(err.Error(), "not a regular file") {
		t.Errorf("reading it again ends with %v", err)
	}
}

func TestBadFileKeepsTheOldWorld(t *testing.T) {
	t.Parallel()
	b := gatewaytest.StartBackend(t)
	file := filepath.Join(t.TempDir(), "patchbay.yaml")
	gatewaytest.WriteFile(t, file, gatewaytest.PoolYAML(b))
	c := serving(t, "--config", file)
	c.waitFor("listening")
	for round, bad := range []string{
		"services:\n  chat:\n    instances:\n      - {name: m, base-url: nonsense}\n",
		"services: {chat: {instances: [{name: m\n",
		"serwices: {}\n",
	} {
		replaceFile(t, file, bad)
		gatewaytest.Eventually(t, "the mistake is logged", func() bool {
			return gatewaytest.CountLines(c.stderr.String(), "the configuration file has mistakes", file+":") >= round+1
		})
		if answer := c.ask(http.MethodPost, "/v1/chat/completions", gatewaytest.PlainHi); answer.Status != 200 {
			t.Errorf("the old world is gone: %d %s", answer.Status, answer.Body)
		}
	}
	if !strings.Contains(c.stderr.String(), file+":4:29") || !strings.Contains(c.stderr.String(), file+":1:1") {
		t.Errorf("no line and column:\n%s", c.stderr.String())
	}
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	c.signal(syscall.SIGHUP)
	c.waitFor("does not exist")
	if answer := c.ask(http.MethodPost, "/v1/chat/completions", gatewaytest.PlainHi); answer.Status != 200 {
		t.Errorf("without a file: %d %s", answer.Status, answer.Body)
	}
	replaceFile(t, file, gatewaytest.PoolYAML(b)+"limits: {max-attempts: 5}\n") // and it can be mended
	c.waitFor("configuration reloaded")
}

func TestSettingsThatNeedARestartAreNamed(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "patchbay.yaml")
	gatewaytest.WriteFile(t, file, "server: {shutdown-grace: 5s}\n")
	c := serving(t, "--config", file)
	replaceFile(t, file, "server: {shutdown-grace: 6s}\n")
	c.waitFor(`take effect at the next start","settings":["server"]`)
}
