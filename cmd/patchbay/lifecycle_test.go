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

	"github.com/go-json-experiment/json"

	"github.com/patchbay-ai/patchbay/internal/config"
	"github.com/patchbay-ai/patchbay/internal/control"
	"github.com/patchbay-ai/patchbay/internal/gateway"
	"github.com/patchbay-ai/patchbay/internal/schema"
	"github.com/patchbay-ai/patchbay/internal/simulator"
)

// models returns the models that a gateway lists, by the caller's view.
func models(t *testing.T, answer reply) []string {
	t.Helper()
	var list struct {
		Data []struct {
			ID string `json:"id"`
		} `json:"data"`
	}
	if err := json.Unmarshal([]byte(answer.succeeds(t).body), &list); err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, model := range list.Data {
		names = append(names, model.ID)
	}
	return names
}

func (r *rig) models() []string {
	r.t.Helper()
	return models(r.t, r.do(http.MethodGet, "/v1/models", ""))
}

// versionFile returns where a version is kept.
func versionFile(dataDir string, number int) string {
	return filepath.Join(dataDir, "versions", fmt.Sprintf("%08d.json", number))
}

func (r *rig) versions() []int {
	r.t.Helper()
	numbers, err := r.Store.Versions()
	if err != nil {
		r.t.Fatal(err)
	}
	return numbers
}

// rename changes the name of the first chat instance, as a management call would.
func (r *rig) rename(name string) int {
	r.t.Helper()
	result, err := r.Control.Apply(control.Change{Origin: "test", Summary: "renamed"}, func(doc *config.Document) error {
		doc.Services[schema.Chat].Instances[0].Name = name
		return nil
	})
	if err != nil {
		r.t.Fatal(err)
	}
	return result.Version
}

func TestFilesOfTheDataDirectoryAreTheOwnersAlone(t *testing.T) {
	dir := t.TempDir()
	startWith(t, setup{yaml: chatYAML(instance("one", simulator.DownURL, "api-key: secret")), dataDir: dir})
	err := filepath.WalkDir(filepath.Join(dir, "versions"), func(path string, entry os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := entry.Info()
		if err == nil && info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s is open to others: %s", path, info.Mode())
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// A restart keeps the version that was current, unless the file changed.
func TestRestartKeepsTheCurrentVersion(t *testing.T) {
	dir := t.TempDir()
	one, two := chatYAML(instance("one", simulator.DownURL)), chatYAML(instance("two", simulator.DownURL))

	r := startWith(t, setup{yaml: one, dataDir: dir})
	if r.Control.Version() != 1 || !slices.Equal(r.versions(), []int{1}) || !slices.Equal(r.models(), []string{"one"}) {
		t.Fatalf("version %d of %v with %v", r.Control.Version(), r.versions(), r.models())
	}
	if version := r.rename("edited"); version != 2 || !slices.Equal(r.models(), []string{"edited"}) {
		t.Fatalf("version %d with %v", version, r.models())
	}
	r.halt()

	r = startWith(t, setup{yaml: one, dataDir: dir}) // the file is what it was
	if r.Control.Version() != 2 || !slices.Equal(r.models(), []string{"edited"}) || !slices.Equal(r.versions(), []int{1, 2}) {
		t.Errorf("after a restart: version %d of %v with %v", r.Control.Version(), r.versions(), r.models())
	}
	r.halt()

	r = startWith(t, setup{yaml: "# a comment changes nothing\nlimits: {max-attempts: 3}\n" + one, dataDir: dir})
	if r.Control.Version() != 2 || !slices.Equal(r.models(), []string{"edited"}) || r.Current.Load().Limits.MaxAttempts != 3 {
		t.Errorf("after a change beside the services: version %d with %v", r.Control.Version(), r.models())
	}
	r.halt()

	r = startWith(t, setup{yaml: two, dataDir: dir}) // the file changed, and so do the services by the difference
	if r.Control.Version() != 3 || !slices.Equal(r.models(), []string{"edited", "two"}) {
		t.Errorf("after a change of the file: version %d with %v", r.Control.Version(), r.models())
	}
	if !strings.Contains(r.logs.String(), "the configuration file changed since it was last read: added 1 (chat two@127.0.0.1:1); changed nothing; removed nothing") {
		t.Error("the log does not say what changed")
	}
	r.halt()

	r = startWith(t, setup{yaml: two, dataDir: dir})
	if r.Control.Version() != 3 || len(r.versions()) != 3 {
		t.Errorf("a restart made version %d of %v", r.Control.Version(), r.versions())
	}
}

// Files that cannot be read are said so, left alone, and done without.
func TestCorruptVersionsFallBack(t *testing.T) {
	yaml := chatYAML(instance("one", simulator.DownURL))
	prepare := func(t *testing.T) string { // versions 1 (one), 2 (two), 3 (three), of which 3 is current
		dir := t.TempDir()
		r := startWith(t, setup{yaml: yaml, dataDir: dir})
		r.rename("two")
		r.rename("three")
		r.halt()
		return dir
	}
	whole := string(mustRead(t, versionFile(prepare(t), 3)))
	for name, damage := range map[string]string{
		"empty": "", "half": whole[:len(whole)/2], "garbage": "\x00\x01\x02", "another number": strings.Replace(whole, `"version": 3`, `"version": 2`, 1),
		"unknown member": strings.Replace(whole, `"origin"`, `"oregano"`, 1), "a setting that is not allowed": strings.ReplaceAll(whole, simulator.DownURL, "ftp://x"),
		"an array": "[]", "null": "null", "an object": "{}",
	} {
		t.Run("version is "+name, func(t *testing.T) {
			dir := prepare(t)
			mustWrite(t, versionFile(dir, 3), damage)
			r := startWith(t, setup{yaml: yaml, dataDir: dir})
			if r.Control.Version() != 2 || !slices.Equal(r.models(), []string{"two"}) {
				t.Errorf("version %d with %v", r.Control.Version(), r.models())
			}
			if countLines(r.logs.String(), "a stored version cannot be used", `"version":3`) != 1 || countLines(r.logs.String(), "takes its place", `"version":2`) != 1 {
				t.Errorf("the log does not say so: %s", r.logs.String())
			}
			if string(mustRead(t, versionFile(dir, 3))) != damage {
				t.Error("the damaged file was touched")
			}
			if version := r.rename("four"); version != 4 {
				t.Errorf("the next version is %d", version)
			}
		})
	}
	for name, damage := range map[string]string{"empty": "", "garbage": "x", "half": `{"version": 3, "sou`} {
		t.Run("pointer is "+name, func(t *testing.T) {
			dir := prepare(t)
			mustWrite(t, filepath.Join(dir, "versions", "current.json"), damage)
			r := startWith(t, setup{yaml: yaml, dataDir: dir})
			if r.Control.Version() != 3 || !slices.Equal(r.models(), []string{"three"}) {
				t.Errorf("version %d with %v, want the newest one", r.Control.Version(), r.models())
			}
			if !strings.Contains(r.logs.String(), "the record of the current version cannot be read") {
				t.Errorf("the log does not say so: %s", r.logs.String())
			}
			r.halt()
			again := startWith(t, setup{yaml: yaml, dataDir: dir})
			if again.Control.Version() != 3 || strings.Contains(again.logs.String(), "cannot be read") {
				t.Errorf("the damage is still there: version %d\n%s", again.Control.Version(), again.logs.String())
			}
		})
	}
	t.Run("everything", func(t *testing.T) {
		dir := prepare(t)
		for number := range 3 {
			mustWrite(t, versionFile(dir, number+1), "x")
		}
		r := startWith(t, setup{yaml: yaml, dataDir: dir})
		if r.Control.Version() != 4 || !slices.Equal(r.models(), []string{"one"}) {
			t.Errorf("version %d with %v", r.Control.Version(), r.models())
		}
	})
	t.Run("leftovers of a crash", func(t *testing.T) {
		dir := prepare(t)
		leftover := filepath.Join(dir, "versions", ".new-123")
		mustWrite(t, leftover, whole[:100])
		r := startWith(t, setup{yaml: yaml, dataDir: dir})
		if r.Control.Version() != 3 {
			t.Errorf("version %d", r.Control.Version())
		}
		if _, err := os.Stat(leftover); err == nil {
			t.Error("half a version with its keys stays on the disk for ever")
		}
	})
}

func TestChangeThatCannotBeSavedChangesNothing(t *testing.T) {
	dir := t.TempDir()
	r := startWith(t, setup{yaml: chatYAML(instance("one", simulator.DownURL)), dataDir: dir})
	versions := filepath.Join(dir, "versions")
	if err := os.Rename(versions, versions+".away"); err != nil {
		t.Fatal(err)
	}
	_, err := r.Control.Apply(control.Change{Origin: "test", Summary: "renamed"}, func(doc *config.Document) error {
		doc.Services[schema.Chat].Instances[0].Name = "two"
		return nil
	})
	if err == nil || r.Control.Version() != 1 || !slices.Equal(r.models(), []string{"one"}) {
		t.Errorf("error %v, version %d with %v", err, r.Control.Version(), r.models())
	}
	if err := os.Rename(versions+".away", versions); err != nil {
		t.Fatal(err)
	}
	if version := r.rename("two"); version != 2 || !slices.Equal(r.models(), []string{"two"}) {
		t.Errorf("then version %d with %v", version, r.models())
	}
}

func TestSecondProcessOnTheSameDataDirectoryRefuses(t *testing.T) {
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
		now[number] = sha256.Sum256(mustRead(c.t, path))
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
	c := &crashRig{t: t, dir: t.TempDir(), file: filepath.Join(t.TempDir(), "patchbay.yaml"), contents: map[int][sha256.Size]byte{}}
	content := func(round int) string { return chatYAML(instance(fmt.Sprintf("model-%d", round), simulator.DownURL)) }
	mustWrite(t, c.file, content(0))
	written := regexp.MustCompile(`"version":(\d+)`)
	last := 0
	for round := 1; round <= 10; round++ {
		p := serving(t, "--config", c.file, "--data-dir", c.dir)
		c.look()
		names := models(t, p.ask(http.MethodGet, "/v1/models", ""))
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
			eventually(t, "a version is being written", func() bool {
				paths, _ := filepath.Glob(filepath.Join(c.dir, "versions", ".new-*"))
				return len(paths) > 0 || strings.Contains(p.stderr.String(), "configuration reloaded")
			})
		case 2:
			eventually(t, "a version is written", func() bool {
				_, err := os.Stat(versionFile(c.dir, c.newest+1))
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
	if names := models(t, p.ask(http.MethodGet, "/v1/models", "")); !slices.Equal(names, []string{"model-10"}) {
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
	for name, hangUp := range map[string]bool{"when the file changes": false, "on SIGHUP": true} {
		t.Run(name, func(t *testing.T) {
			g, b := startGate(t), startBackend(t)
			file := filepath.Join(t.TempDir(), "patchbay.yaml")
			mustWrite(t, file, chatYAML(instance("m", g.url)))
			c := serving(t, "--config", file)
			events := c.stream(streamHi)
			if first, err := events.next(); err != nil || first != gateFirst {
				t.Fatalf("the first event: %q, %v", first, err)
			}
			replaceFile(t, file, poolYAML(b)) // the instance of the running stream is gone
			if hangUp {
				c.signal(syscall.SIGHUP)
			}
			c.waitFor("configuration reloaded")
			if answer := c.ask(http.MethodPost, "/v1/chat/completions", plainHi); answer.status != 200 {
				t.Errorf("the next request: %d %s", answer.status, answer.body)
			}
			if b.Stats().Arrived != 1 {
				t.Errorf("the new instance got %d requests", b.Stats().Arrived)
			}
			close(g.open)
			if rest, err := events.rest(); err != nil || !slices.Equal(rest, []string{gateLast, "[DONE]"}) {
				t.Errorf("the rest of the stream: %q, %v", rest, err)
			}
			if log := c.stderr.String(); countLines(log, `"msg":"configuration reloaded: added 1 (chat m@`, `changed nothing; removed 1 (chat m@`, `"version":2`) != 1 {
				t.Errorf("no second version:\n%s", log)
			}
		})
	}
}

// A file that changed while the gateway started is not overlooked.
func TestChangeDuringTheStartIsSeen(t *testing.T) {
	file := filepath.Join(t.TempDir(), "patchbay.yaml")
	mustWrite(t, file, chatYAML(instance("old", simulator.DownURL)))
	flags := &settingFlags{file: file, dataDir: t.TempDir(), listen: "127.0.0.1:0"}
	loaded, err := flags.loadFirst()
	if err != nil {
		t.Fatal(err)
	}
	replaceFile(t, file, chatYAML(instance("new", simulator.DownURL)))
	out := new(lockedBuffer)
	running, ended := make(chan *gateway.Gateway, 1), make(chan error, 1)
	go func() {
		ended <- runGateway(flags, loaded, newLog(out, loaded.Document.Log, nil), func(g *gateway.Gateway, _ *slog.Logger) { running <- g })
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
	eventually(t, "the new file is in force", func() bool {
		return g.Current.Load().Service(schema.Chat).Find("new") != nil
	})
}

func TestBadFileKeepsTheOldWorld(t *testing.T) {
	b := startBackend(t)
	file := filepath.Join(t.TempDir(), "patchbay.yaml")
	mustWrite(t, file, poolYAML(b))
	c := serving(t, "--config", file)
	c.waitFor("listening")
	for round, bad := range []string{
		"services:\n  chat:\n    instances:\n      - {name: m, base-url: nonsense}\n",
		"services: {chat: {instances: [{name: m\n",
		"serwices: {}\n",
	} {
		replaceFile(t, file, bad)
		eventually(t, "the mistake is logged", func() bool {
			return countLines(c.stderr.String(), "the configuration file has mistakes", file+":") >= round+1
		})
		if answer := c.ask(http.MethodPost, "/v1/chat/completions", plainHi); answer.status != 200 {
			t.Errorf("the old world is gone: %d %s", answer.status, answer.body)
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
	if answer := c.ask(http.MethodPost, "/v1/chat/completions", plainHi); answer.status != 200 {
		t.Errorf("without a file: %d %s", answer.status, answer.body)
	}
	replaceFile(t, file, poolYAML(b)+"limits: {max-attempts: 5}\n") // and it can be mended
	c.waitFor("configuration reloaded")
}

func TestSettingsThatNeedARestartAreNamed(t *testing.T) {
	file := filepath.Join(t.TempDir(), "patchbay.yaml")
	mustWrite(t, file, "server: {shutdown-grace: 5s}\n")
	c := serving(t, "--config", file)
	replaceFile(t, file, "server: {shutdown-grace: 6s}\n")
	c.waitFor(`take effect at the next start","settings":["server"]`)
}

// A change of weights keeps what lives: whose turn it is, and what is in flight.
func TestWeightEditKeepsRoundsAndCounts(t *testing.T) {
	a, b := startBackend(t), startBackend(t)
	r := startGateway(t, chatYAML(instance("m", a.URL(), "weight: 3"), instance("m", b.URL(), "weight: 1")))
	a.ScriptForever(simulator.Step{Stop: simulator.StopStall, After: 1})
	stalled := r.stream(deadline(t), streamHi) // the first turn is a's
	if _, err := stalled.next(); err != nil {
		t.Fatal(err)
	}
	a.Script()
	r.chat(plainHi).succeeds(t) // a or b; then the round is in its middle
	turns := func() [2]int { return [2]int{a.Stats().Arrived, b.Stats().Arrived} }
	before := turns()
	weigh := func(weight float64) {
		if _, err := r.Control.Apply(control.Change{Origin: "test", Summary: "weights"}, func(doc *config.Document) error {
			doc.Services[schema.Chat].Instances[0].Weight = weight
			return nil
		}); err != nil {
			t.Fatal(err)
		}
	}
	weigh(4)
	weigh(3)
	if got := r.instances("m")[0].InFlight(); got != 1 {
		t.Errorf("in flight %d after the edit, want 1", got)
	}
	r.chat(plainHi).succeeds(t)
	r.chat(plainHi).succeeds(t)
	after := turns()
	if after != [2]int{3, 1} { // a round of four, begun before the edit and ended after it
		t.Errorf("turns %v before the edit, %v after the round", before, after)
	}
	if success, failure, _ := outcomes(r.instances("m")[0]); success+failure != 2 {
		t.Errorf("the counts of the first instance are %d and %d", success, failure)
	}
}

// Edits that change nothing make no version.
func TestSameConfigurationMakesNoVersion(t *testing.T) {
	r := startGateway(t, chatYAML(instance("one", simulator.DownURL)))
	if version := r.rename("one"); version != 1 || len(r.versions()) != 1 {
		t.Errorf("version %d of %v", version, r.versions())
	}
	doc := loadDocument(t, chatYAML(instance("one", simulator.DownURL)), t.TempDir())
	if changed, err := r.Control.Reload(doc); changed || err != nil || r.Control.Version() != 1 {
		t.Errorf("changed %t, %v, version %d", changed, err, r.Control.Version())
	}
}
