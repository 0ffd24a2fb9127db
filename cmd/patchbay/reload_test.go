package main

import (
	"net/http"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"
	"syscall"
	"testing"

	"github.com/patchbay-ai/patchbay/internal/simulator"
	"github.com/patchbay-ai/patchbay/internal/storetest"
)

// reloading is a gateway that is told to read a file again by the test alone.
func reloading(t *testing.T, s setup) (r *rig, reload func(yaml string)) {
	t.Helper()
	dir, file := t.TempDir(), filepath.Join(t.TempDir(), "patchbay.yaml")
	s.dataDir = dir
	r = startWith(t, s)
	return r, func(yaml string) {
		t.Helper()
		mustWrite(t, file, yaml)
		r.Reload((&settingFlags{file: file, dataDir: dir, listen: "127.0.0.1:0"}).loadAgain)
	}
}

func TestReloadThatFailsChangesNothing(t *testing.T) {
	outside := debug.SetMemoryLimit(-1)
	t.Cleanup(func() { debug.SetMemoryLimit(outside) })
	r, reload := reloading(t, setup{yaml: chatYAML(instance("one", simulator.DownURL))})
	before := debug.SetMemoryLimit(-1)
	versions := filepath.Join(r.Document.Server.DataDir, "versions")
	if err := os.Rename(versions, versions+".away"); err != nil {
		t.Fatal(err)
	}
	next := chatYAML(instance("two", simulator.DownURL)) + "quota: {enabled: true, windows: [DAY]}\nlimits: {memory: 64GiB}\nserver: {shutdown-grace: 7s}\n"
	reload(next)
	if !strings.Contains(r.logs.String(), "the configuration was not taken") {
		t.Fatalf("it did not fail:\n%s", r.logs.String())
	}
	if r.Ledger.On() || debug.SetMemoryLimit(-1) != before || strings.Contains(r.logs.String(), "take effect at the next start") {
		t.Errorf("the ledger is on: %v, the memory limit is %d\n%s", r.Ledger.On(), debug.SetMemoryLimit(-1), r.logs.String())
	}
	if err := os.Rename(versions+".away", versions); err != nil {
		t.Fatal(err)
	}
	reload(next)
	if !r.Ledger.On() || debug.SetMemoryLimit(-1) != 64<<30 || !strings.Contains(r.logs.String(), `take effect at the next start","settings":["server"]`) {
		t.Errorf("the ledger is on: %v, the memory limit is %d\n%s", r.Ledger.On(), debug.SetMemoryLimit(-1), r.logs.String())
	}
	reload(chatYAML(instance("two", simulator.DownURL)))
	if r.Ledger.On() || debug.SetMemoryLimit(-1) != before {
		t.Errorf("the ledger is on: %v, the memory limit is %d", r.Ledger.On(), debug.SetMemoryLimit(-1))
	}
}

// What every gateway has for itself does not wait for what all share.
func TestReloadWithoutTheSharedDatabase(t *testing.T) {
	db := storetest.Postgres(t)
	shared := "store: {config: " + quoteYAML(db.URL) + "}\n"
	r, reload := reloading(t, setup{yaml: chatYAML(instance("one", simulator.DownURL)) + shared})
	db.Kill()
	reload(chatYAML(instance("two", simulator.DownURL)) + shared + "quota: {enabled: true}\n")
	if !r.Ledger.On() || !strings.Contains(r.logs.String(), "wait for the database") {
		t.Errorf("the ledger is on: %v\n%s", r.Ledger.On(), r.logs.String())
	}
	db.Start()
	eventually(t, "the services of the file are in force", func() bool { return len(r.models()) == 1 && r.models()[0] == "two" })
}

// An edit of the file while the gateway runs, and one while it is stopped, change
// what they say and keep what was added over the API.
func TestEditsOfTheFileKeepInstancesOfTheAPI(t *testing.T) {
	dir := t.TempDir()
	file, data := filepath.Join(dir, "patchbay.yaml"), filepath.Join(dir, "data")
	yaml := func(interval string) string {
		return policyYAML("health-check: {interval: "+interval+"}", instance("of-the-file", simulator.DownURL))
	}
	mustWrite(t, file, yaml("30s"))
	start := func() *child { return serving(t, "--config", file, "--data-dir", data) }
	c := start()
	for _, name := range []string{"a", "b", "c"} {
		if answer := c.ask(http.MethodPost, instAdd+"chat", `{"name":"`+name+`","baseUrl":"`+simulator.DownURL+`"}`); answer.status != 201 {
			t.Fatalf("%d %s", answer.status, answer.body)
		}
	}
	has := func(interval string) {
		t.Helper()
		answer := c.ask(http.MethodGet, "/api/config/type/services/chat", "")
		for _, part := range []string{`"name":"of-the-file"`, `"name":"a"`, `"name":"b"`, `"name":"c"`, `"interval":` + interval} {
			if !strings.Contains(answer.body, part) {
				t.Errorf("%s is not in %s", part, answer.body)
			}
		}
	}
	replaceFile(t, file, yaml("20s"))
	c.waitFor("configuration reloaded: added nothing; changed 1 (chat healthCheck.interval 30000→20000); removed nothing")
	has("20000")
	c.signal(syscall.SIGTERM)
	c.exits(exitOK)
	mustWrite(t, file, yaml("10s"))
	c = start()
	c.waitFor("the configuration file changed since it was last read: added nothing; changed 1 (chat healthCheck.interval 20000→10000); removed nothing")
	has("10000")
	if answer := c.ask(http.MethodGet, "/api/config/version?details=true", ""); !strings.Contains(answer.body, "the configuration file changed: 0 added, 1 changed, 0 removed; chat: healthCheck.interval 20000→10000") {
		t.Errorf("%s", answer.body)
	}
}
