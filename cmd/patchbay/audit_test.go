package main

import (
	"bytes"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/patchbay-ai/patchbay/internal/gateway/gatewaytest"
	"github.com/patchbay-ai/patchbay/internal/wings/audit"
)

// runAudit runs the verb and returns its exit code and output.
func runAudit(args ...string) (code int, output string) {
	var out bytes.Buffer
	code = run(append([]string{"audit"}, args...), nil, &out, &out)
	return code, out.String()
}

// An audit is verified in its place and as an export, while the gateway runs and after it was
// killed. A record that is changed, removed or cut off is named.
func TestAuditVerb(t *testing.T) {
	t.Parallel()
	t.Cleanup(http.DefaultClient.CloseIdleConnections) //nolint:forbidigo // a test's client
	dir := t.TempDir()
	data := filepath.Join(dir, "data")
	verify := func(want int, part string, args ...string) {
		t.Helper()
		if code, output := runAudit(append([]string{"verify"}, args...)...); code != want || !strings.Contains(output, part) {
			t.Errorf("%v: %d %s", args, code, output)
		}
	}
	verify(1, "there is no data directory", "--data-dir", data)
	c := serving(t, "--data-dir", data)
	verify(0, "there are no records", "--data-dir", data)
	for _, id := range []string{"k1", "k2", "k3"} {
		if got := c.ask(http.MethodPost, "/api/auth/keys", `{"id":"`+id+`"}`); got.Status != http.StatusCreated {
			t.Fatalf("%d %s", got.Status, got.Body)
		}
	}
	verify(0, "seq 1 to 3 hold", "--data-dir", data)
	keys := filepath.Join(dir, "keys.json")
	if err := os.WriteFile(keys, []byte(c.ask(http.MethodGet, "/api/audit/keys", "").Body), 0o600); err != nil {
		t.Fatal(err)
	}
	if code, output := runAudit("rotate-key", "--url", c.url()); code != 0 || !strings.Contains(output, "signs the heads") {
		t.Errorf("%d %s", code, output)
	}
	c.kill()
	c = serving(t, "--data-dir", data)
	c.signal(os.Interrupt)
	c.exits(0)
	// The heads are signed by two keys, and the copy has the first one.
	verify(0, "the last signed head is of seq 4", "--data-dir", data)
	verify(1, "no known key signed", "--data-dir", data, "--key", keys)
	verify(2, "not two of them", "x.jsonl", "--data-dir", data)
	verify(1, "--key", "--data-dir", data, "--key", filepath.Join(dir, "none"))

	code, lines := runAudit("export", "--data-dir", data)
	all := strings.SplitAfter(lines, "\n")
	if code != 0 || len(all) != 5 {
		t.Fatalf("%d %s", code, lines)
	}
	last, err := audit.Read([]byte(strings.TrimSpace(all[3])))
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "export.jsonl")
	for _, test := range []struct {
		content string
		code    int
		part    string
	}{
		{lines, 0, "seq 1 to 4 hold"},
		{strings.Replace(lines, "key k2 issued", "key k9 issued", 1), 1, "seq 2 does not hold"},
		{all[0] + all[2] + all[3], 1, "seq 2 does not hold"},
		{all[1] + all[2] + all[3], 1, "seq 1 does not hold"},
		{all[0] + all[2] + all[1] + all[3], 1, "seq 2 does not hold"},
		{all[0] + all[1], 1, "seq 3 does not hold"},
	} {
		if err := os.WriteFile(file, []byte(test.content), 0o600); err != nil {
			t.Fatal(err)
		}
		verify(test.code, test.part, file, "--head", last.Hash)
	}
	// Without a head, records that are missing at the end of an export leave no trace. In their
	// place the heads tell.
	verify(0, "seq 1 to 2 hold", file)
	segment := filepath.Join(data, "audit", "0001-000000000001.jsonl")
	if err := os.WriteFile(segment, []byte(all[0]+all[1]), 0o600); err != nil {
		t.Fatal(err)
	}
	verify(1, "seq 3 does not hold", segment)
	verify(1, "seq 3 does not hold", "--data-dir", data)
}

// Operations on a data directory that no gateway uses are recorded, and a restore begins a new
// chain.
func TestTheAuditOfADataDirectory(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	data, file := filepath.Join(dir, "data"), filepath.Join(dir, "b.zip")
	c := serving(t, "--data-dir", data) // makes a configuration
	c.signal(os.Interrupt)
	c.exits(0)
	for _, args := range [][]string{
		{"keys", "create", "k1", "--data-dir", data}, {"backup", file, "--data-dir", data}, {"keys", "revoke", "k1", "--data-dir", data},
		{"restore", file, "--data-dir", data, "--force"}, {"keys", "revoke", "k1", "--data-dir", data},
	} {
		var out bytes.Buffer
		if code := run(args, nil, &out, &out); code != 0 {
			t.Fatalf("%v: %d %s", args, code, out.String())
		}
	}
	code, lines := runAudit("export", "--data-dir", data)
	var got []string
	for line := range strings.Lines(lines) {
		r, err := audit.Read([]byte(line))
		if err != nil {
			t.Fatal(err)
		}
		what, _, _ := strings.Cut(r.Object, " was restored")
		what, _, _ = strings.Cut(what, " of 20")
		what, _, _ = strings.Cut(what, " with SHA-256 ")
		got = append(got, r.Who+"|"+r.Action+"|"+what)
	}
	want := []string{
		"command line|POST /api/auth/keys|/api/auth/keys: key k1 issued", "command line|DELETE /api/auth/keys/{id}|/api/auth/keys/k1: key k1 revoked",
		"gateway|audit.begin|a backup", "command line|restore|backup", "command line|DELETE /api/auth/keys/{id}|/api/auth/keys/k1: key k1 revoked",
	}
	if strings.Join(got, "\n") != strings.Join(want, "\n") || code != 0 {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if code, output := runAudit("verify", "--data-dir", data); code != 0 {
		t.Errorf("%d %s", code, output)
	}
}

// Whenever the gateway is killed, changes that it has answered are recorded.
func TestNoAnsweredChangeIsLostByAKill(t *testing.T) {
	t.Parallel()
	t.Cleanup(http.DefaultClient.CloseIdleConnections) //nolint:forbidigo // a test's client
	data := filepath.Join(t.TempDir(), "data")
	answered := map[string]bool{}
	for round := range 3 {
		c := serving(t, "--data-dir", data)
		done := make(chan []string)
		go func() {
			var made []string
			defer func() { done <- made }()
			for i := range 10_000 {
				id := strings.Join([]string{"k", string(rune('a' + round)), time.Duration(i).String()}, "-")
				reply, err := c.send(t.Context(), http.MethodPost, "/api/auth/keys", `{"id":"`+id+`"}`)
				if err != nil {
					return
				}
				_ = reply.Body.Close()
				if reply.StatusCode == http.StatusCreated {
					made = append(made, id)
				}
			}
		}()
		gatewaytest.Eventually(t, "some keys are there", func() bool {
			content, _ := os.ReadFile(filepath.Join(data, "audit", "0001-000000000001.jsonl")) // it comes with the first
			return bytes.Count(content, []byte("\n")) > 5*(round+1)
		})
		c.kill()
		for _, id := range <-done {
			answered[id] = true
		}
	}
	c := serving(t, "--data-dir", data) // records what was under way
	c.ask(http.MethodPost, "/api/auth/keys", `{"id":"last"}`)
	c.signal(os.Interrupt)
	c.exits(0)
	_, lines := runAudit("export", "--data-dir", data)
	for id := range answered {
		if !strings.Contains(lines, "key "+id+" issued") {
			t.Errorf("the key %s has no record", id)
		}
	}
	if code, output := runAudit("verify", "--data-dir", data); code != 0 || len(answered) < 5 {
		t.Errorf("%d %s, %d keys", code, output, len(answered))
	}
}
