package gateway_test

import (
	"context"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/patchbay-ai/patchbay/internal/config"
	"github.com/patchbay-ai/patchbay/internal/config/control"
	"github.com/patchbay-ai/patchbay/internal/gateway/gatewaytest"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
	"github.com/patchbay-ai/patchbay/internal/testing/simulator"
)

func numbersOf(r *gatewaytest.Gateway) []int {
	r.T.Helper()
	numbers, err := r.Store.Versions()
	if err != nil {
		r.T.Fatal(err)
	}
	return numbers
}

// rename changes the name of the first chat instance, as a management call would.
func rename(r *gatewaytest.Gateway, name string) int {
	r.T.Helper()
	result, err := r.Control.Apply(r.T.Context(), control.Change{Origin: "test", Summary: "renamed"}, func(doc *config.Document) error {
		doc.Services[schema.Chat].Instances[0].Name = name
		return nil
	})
	if err != nil {
		r.T.Fatal(err)
	}
	return result.Version
}

func TestFilesOfTheDataDirectoryAreTheOwnersAlone(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	gatewaytest.StartWith(t, gatewaytest.Setup{YAML: gatewaytest.ChatYAML(gatewaytest.Instance("one", simulator.DownURL, "api-key: secret")), DataDir: dir})
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
	t.Parallel()
	dir := t.TempDir()
	one, two := gatewaytest.ChatYAML(gatewaytest.Instance("one", simulator.DownURL)), gatewaytest.ChatYAML(gatewaytest.Instance("two", simulator.DownURL))

	r := gatewaytest.StartWith(t, gatewaytest.Setup{YAML: one, DataDir: dir})
	if r.Control.Version() != 1 || !slices.Equal(numbersOf(r), []int{1}) || !slices.Equal(r.Models(), []string{"one"}) {
		t.Fatalf("version %d of %v with %v", r.Control.Version(), numbersOf(r), r.Models())
	}
	if version := rename(r, "edited"); version != 2 || !slices.Equal(r.Models(), []string{"edited"}) {
		t.Fatalf("version %d with %v", version, r.Models())
	}
	r.Halt()

	r = gatewaytest.StartWith(t, gatewaytest.Setup{YAML: one, DataDir: dir}) // the file is what it was
	if r.Control.Version() != 2 || !slices.Equal(r.Models(), []string{"edited"}) || !slices.Equal(numbersOf(r), []int{1, 2}) {
		t.Errorf("after a restart: version %d of %v with %v", r.Control.Version(), numbersOf(r), r.Models())
	}
	r.Halt()

	r = gatewaytest.StartWith(t, gatewaytest.Setup{YAML: "# a comment changes nothing\nlimits: {max-attempts: 3}\n" + one, DataDir: dir})
	if r.Control.Version() != 2 || !slices.Equal(r.Models(), []string{"edited"}) || r.Current.Load().Limits.MaxAttempts != 3 {
		t.Errorf("after a change beside the services: version %d with %v", r.Control.Version(), r.Models())
	}
	r.Halt()

	r = gatewaytest.StartWith(t, gatewaytest.Setup{YAML: two, DataDir: dir}) // the file changed, and so do the services by the difference
	if r.Control.Version() != 3 || !slices.Equal(r.Models(), []string{"edited", "two"}) {
		t.Errorf("after a change of the file: version %d with %v", r.Control.Version(), r.Models())
	}
	if !strings.Contains(r.Logs.String(), "the configuration file changed since it was last read: added 1 (chat two@127.0.0.1:1); changed nothing; removed nothing") {
		t.Error("the log does not say what changed")
	}
	r.Halt()

	r = gatewaytest.StartWith(t, gatewaytest.Setup{YAML: two, DataDir: dir})
	if r.Control.Version() != 3 || len(numbersOf(r)) != 3 {
		t.Errorf("a restart made version %d of %v", r.Control.Version(), numbersOf(r))
	}
}

// Files that cannot be read are said so, left alone, and done without.
func TestCorruptVersionsFallBack(t *testing.T) {
	t.Parallel()
	yaml := gatewaytest.ChatYAML(gatewaytest.Instance("one", simulator.DownURL))
	prepare := func(t *testing.T) string { // versions 1 (one), 2 (two), 3 (three), of which 3 is current
		dir := t.TempDir()
		r := gatewaytest.StartWith(t, gatewaytest.Setup{YAML: yaml, DataDir: dir})
		rename(r, "two")
		rename(r, "three")
		r.Halt()
		return dir
	}
	whole := string(gatewaytest.ReadFile(t, gatewaytest.VersionFile(prepare(t), 3)))
	for name, damage := range map[string]string{
		"empty": "", "half": whole[:len(whole)/2], "garbage": "\x00\x01\x02", "another number": strings.Replace(whole, `"version": 3`, `"version": 2`, 1),
		"unknown member": strings.Replace(whole, `"origin"`, `"oregano"`, 1), "a setting that is not allowed": strings.ReplaceAll(whole, simulator.DownURL, "ftp://x"),
		"an array": "[]", "null": "null", "an object": "{}",
	} {
		t.Run("version is "+name, func(t *testing.T) {
			dir := prepare(t)
			gatewaytest.WriteFile(t, gatewaytest.VersionFile(dir, 3), damage)
			r := gatewaytest.StartWith(t, gatewaytest.Setup{YAML: yaml, DataDir: dir})
			if r.Control.Version() != 2 || !slices.Equal(r.Models(), []string{"two"}) {
				t.Errorf("version %d with %v", r.Control.Version(), r.Models())
			}
			if gatewaytest.CountLines(r.Logs.String(), "a stored version cannot be used", `"version":3`) != 1 || gatewaytest.CountLines(r.Logs.String(), "takes its place", `"version":2`) != 1 {
				t.Errorf("the log does not say so: %s", r.Logs.String())
			}
			if string(gatewaytest.ReadFile(t, gatewaytest.VersionFile(dir, 3))) != damage {
				t.Error("the damaged file was touched")
			}
			if version := rename(r, "four"); version != 4 {
				t.Errorf("the next version is %d", version)
			}
		})
	}
	for name, damage := range map[string]string{"empty": "", "garbage": "x", "half": `{"version": 3, "sou`} {
		t.Run("pointer is "+name, func(t *testing.T) {
			dir := prepare(t)
			gatewaytest.WriteFile(t, filepath.Join(dir, "versions", "current.json"), damage)
			r := gatewaytest.StartWith(t, gatewaytest.Setup{YAML: yaml, DataDir: dir})
			if r.Control.Version() != 3 || !slices.Equal(r.Models(), []string{"three"}) {
				t.Errorf("version %d with %v, want the newest one", r.Control.Version(), r.Models())
			}
			if !strings.Contains(r.Logs.String(), "the record of the current version cannot be read") {
				t.Errorf("the log does not say so: %s", r.Logs.String())
			}
			r.Halt()
			again := gatewaytest.StartWith(t, gatewaytest.Setup{YAML: yaml, DataDir: dir})
			if again.Control.Version() != 3 || strings.Contains(again.Logs.String(), "cannot be read") {
				t.Errorf("the damage is still there: version %d\n%s", again.Control.Version(), again.Logs.String())
			}
		})
	}
	t.Run("everything", func(t *testing.T) {
		dir := prepare(t)
		for number := range 3 {
			gatewaytest.WriteFile(t, gatewaytest.VersionFile(dir, number+1), "x")
		}
		r := gatewaytest.StartWith(t, gatewaytest.Setup{YAML: yaml, DataDir: dir})
		if r.Control.Version() != 4 || !slices.Equal(r.Models(), []string{"one"}) {
			t.Errorf("version %d with %v", r.Control.Version(), r.Models())
		}
	})
	t.Run("leftovers of a crash", func(t *testing.T) {
		dir := prepare(t)
		leftover := filepath.Join(dir, "versions", ".new-123")
		gatewaytest.WriteFile(t, leftover, whole[:100])
		r := gatewaytest.StartWith(t, gatewaytest.Setup{YAML: yaml, DataDir: dir})
		if r.Control.Version() != 3 {
			t.Errorf("version %d", r.Control.Version())
		}
		if _, err := os.Stat(leftover); err == nil {
			t.Error("half a version with its keys stays on the disk for ever")
		}
	})
}

func TestChangeThatCannotBeSavedChangesNothing(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	r := gatewaytest.StartWith(t, gatewaytest.Setup{YAML: gatewaytest.ChatYAML(gatewaytest.Instance("one", simulator.DownURL)), DataDir: dir})
	versions := filepath.Join(dir, "versions")
	if err := os.Rename(versions, versions+".away"); err != nil {
		t.Fatal(err)
	}
	_, err := r.Control.Apply(r.T.Context(), control.Change{Origin: "test", Summary: "renamed"}, func(doc *config.Document) error {
		doc.Services[schema.Chat].Instances[0].Name = "two"
		return nil
	})
	if err == nil || r.Control.Version() != 1 || !slices.Equal(r.Models(), []string{"one"}) {
		t.Errorf("error %v, version %d with %v", err, r.Control.Version(), r.Models())
	}
	if err := os.Rename(versions+".away", versions); err != nil {
		t.Fatal(err)
	}
	if version := rename(r, "two"); version != 2 || !slices.Equal(r.Models(), []string{"two"}) {
		t.Errorf("then version %d with %v", version, r.Models())
	}
}

// A change of weights keeps what lives: whose turn it is, and what is in flight.
func TestWeightEditKeepsRoundsAndCounts(t *testing.T) {
	t.Parallel()
	a, b := gatewaytest.StartBackend(t), gatewaytest.StartBackend(t)
	r := gatewaytest.Start(t, gatewaytest.ChatYAML(gatewaytest.Instance("m", a.URL(), "weight: 3"), gatewaytest.Instance("m", b.URL(), "weight: 1")))
	a.ScriptForever(simulator.Step{Stop: simulator.StopStall, After: 1})
	stalled := r.Stream(gatewaytest.Deadline(t), gatewaytest.StreamHi) // the first turn is a's
	if _, err := stalled.Next(); err != nil {
		t.Fatal(err)
	}
	a.Script()
	r.Chat(gatewaytest.PlainHi).Succeeds(t) // a or b; then the round is in its middle
	turns := func() [2]int { return [2]int{a.Stats().Arrived, b.Stats().Arrived} }
	before := turns()
	weigh := func(weight float64) {
		if _, err := r.Control.Apply(r.T.Context(), control.Change{Origin: "test", Summary: "weights"}, func(doc *config.Document) error {
			doc.Services[schema.Chat].Instances[0].Weight = weight
			return nil
		}); err != nil {
			t.Fatal(err)
		}
	}
	weigh(4)
	weigh(3)
	if got := r.Instances("m")[0].InFlight(); got != 1 {
		t.Errorf("in flight %d after the edit, want 1", got)
	}
	r.Chat(gatewaytest.PlainHi).Succeeds(t)
	r.Chat(gatewaytest.PlainHi).Succeeds(t)
	after := turns()
	if after != [2]int{3, 1} { // a round of four, begun before the edit and ended after it
		t.Errorf("turns %v before the edit, %v after the round", before, after)
	}
	if success, failure, _ := gatewaytest.Outcomes(r.Instances("m")[0]); success+failure != 2 {
		t.Errorf("the counts of the first instance are %d and %d", success, failure)
	}
}

// Edits that change nothing make no version.
func TestSameConfigurationMakesNoVersion(t *testing.T) {
	t.Parallel()
	r := gatewaytest.Start(t, gatewaytest.ChatYAML(gatewaytest.Instance("one", simulator.DownURL)))
	if version := rename(r, "one"); version != 1 || len(numbersOf(r)) != 1 {
		t.Errorf("version %d of %v", version, numbersOf(r))
	}
	doc := gatewaytest.LoadDocument(t, gatewaytest.ChatYAML(gatewaytest.Instance("one", simulator.DownURL)), t.TempDir())
	if changed, err := r.Control.Reload(t.Context(), doc); changed || err != nil || r.Control.Version() != 1 {
		t.Errorf("changed %t, %v, version %d", changed, err, r.Control.Version())
	}
}

// With a delay the gateway serves on after the signal although nothing runs, on new
// connections as well, so that nobody is refused by a gateway that a load balancer still
// believes to be ready.
func TestAStopServesOnForItsDelay(t *testing.T) {
	t.Parallel()
	b := gatewaytest.StartBackend(t)
	r := gatewaytest.Start(t, gatewaytest.ChatYAML(gatewaytest.Instance("m", b.URL()))+"server: {shutdown-delay: 10m, shutdown-grace: 10m}\n")
	ctx, endDelay := context.WithCancel(t.Context())
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		r.Stop(ctx)
	}()
	gatewaytest.Eventually(t, "readiness is refused", func() bool { return r.Do(http.MethodGet, "/actuator/health/readiness", "").Status == 503 })
	for range 3 {
		answer := r.SendRaw(gatewaytest.RawPost(gatewaytest.PlainHi))
		if answer.Status != 200 || answer.Closes {
			t.Errorf("a new connection during the delay: %d, closes %t", answer.Status, answer.Closes)
		}
	}
	endDelay()
	<-stopped
	if conn, err := new(net.Dialer).DialContext(gatewaytest.Deadline(t), "tcp", r.Address()); err == nil {
		_ = conn.Close()
		t.Error("the gateway still listens after the stop")
	}
}
