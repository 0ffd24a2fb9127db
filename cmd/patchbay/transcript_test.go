package main

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/patchbay-ai/patchbay/internal/gateway/gatewaytest"
	"github.com/patchbay-ai/patchbay/internal/testing/simulator"
	"github.com/patchbay-ai/patchbay/internal/testing/simulator/engine"
)

// transcriptLines are the lines that TestTranscriptOfVerbs runs at a gateway, for every verb that asks one. NAME stands
// for what an earlier line has printed; see idsOfTranscript.
const transcriptLines = `
keys create k1 --tenant acme --service chat --service embedding --model llama* --instance m@http://h --address 10.0.0.0/8 --expires 2099-01-31T00:00:00Z --priority batch --user-header X-User --requests-per-minute 60 --tokens-per-minute 9000000000 --concurrent-requests -1 --budget day.tokens=100 --budget day.cost=1 --budget month.cost=2.5 --budget total.requests=7
keys issue --name k2 --json
keys create k3 --id k3 --tenant blue
keys create k1
keys create a b
keys create k4 --id other
keys create --service nothing
keys create --priority urgent
keys create --expires soon
keys create --budget week.tokens=1
keys create --budget day.cost=much
keys list --token viewer
keys list extra
keys list
keys list --json
keys edit k1
keys edit
keys edit k1 k2 --tenant x
keys edit nobody --tenant x
keys edit k1 --service nothing
keys edit k1 --priority urgent --tenant x
keys edit k1 --requests-per-minute -2
keys edit k1 --model  --expires  --budget day.tokens=0 --requests-per-minute 7 --priority normal
keys edit k1 --tenant other --json
keys edit k2 --tenant two
keys rotate
keys rotate k1
keys rotate k1 --overlap 0
keys rotate k1 --overlap 1h --json
keys rotate k1 --overlap 9000h
keys rotate nobody
keys enable
keys enable k1
keys enable nobody --json
keys revoke
keys revoke k2
keys delete k2
keys remove k2 --json
keys revoke nobody
keys create
tokens create ci
tokens create ci --role KING
tokens create ci --role OPERATOR --expires 2099-01-31T00:00:00Z
tokens issue --id ops --role ADMIN --json
tokens create x --name y --role VIEWER
tokens list
tokens list --json
tokens edit ci
tokens edit ci --role VIEWER --expires 
tokens edit ci --expires never
tokens edit ci --role OPERATOR --expires 2099-01-31T00:00:00Z --json
tokens edit nobody --role VIEWER
tokens rotate ci
tokens rotate ci --json
tokens rotate
tokens enable ci
tokens enable
tokens revoke ci
tokens delete ci --json
models
models list
models list --json
models load m
models load m --json
models load
models load nobody
models pin m
models sleep m
models pin m --off
models sleep m --host http://elsewhere
models sleep m
models list
runs
runs list
runs list --sort size
runs list --state asleep
runs list --since yesterday
runs list --state running --search nothing --owner-key nobody --tenant nobody --since 1h --sort cost
runs list --owner-key nobody --json
runs list --page 2
runs list --json
runs show
runs show RUN
runs show RUN --json
runs show nobody
runs raise RUN
runs raise RUN --cost much
runs raise RUN --requests -1
runs raise RUN --time 30
runs raise RUN --cost 2.5 --tokens 5 --requests 6 --time 1h
runs raise RUN --json
runs raise RUN --token viewer
runs end RUN --now --json
runs end RUN
runs end
processes
processes list
processes list --json
processes log breaks
processes log
processes log nobody
processes start works
processes start breaks
processes stop works
processes stop works --json
processes start nobody
processes stop
processes log breaks
processes log breaks --token viewer
processes start works --wait soon
files list
files list --json
files list --tenant acme --owner-key k
files list --keyless
files delete
files delete nobody
files delete FILE --dry-run
files delete FILE --keyless
files delete --tenant acme --dry-run
files delete --owner-key k --dry-run
files delete --tenant 
files delete nobody --dry-run=false
files delete FILE
files delete --owner-key k
batches list --key K
batches delete
batches delete BATCH --dry-run
batches delete BATCH
batches delete BATCH
batches delete --tenant acme --dry-run
batches delete --keyless
audit rotate-key
audit rotate-key --token viewer
keys list --data-dir nowhere
keys revoke k1 --data-dir nowhere
keys create k1 --tenant acme --data-dir DATA
keys edit k1 --budget day.tokens=5 --data-dir DATA
keys rotate k1 --data-dir DATA
keys list --data-dir DATA
keys enable k1 --json --data-dir DATA
keys revoke k1 --data-dir DATA
keys revoke k9 --data-dir DATA
tokens create t1 --role ADMIN --data-dir DATA
tokens edit t1 --role VIEWER --data-dir DATA
tokens create t2 --role ADMIN --json --data-dir DATA
tokens edit t1 --role VIEWER --data-dir DATA
tokens rotate t1 --data-dir DATA
tokens list --data-dir DATA
tokens revoke t1 --data-dir DATA
keys list --set wrong --data-dir DATA
`

// idsOfTranscript find the names in output that later lines use.
var idsOfTranscript = map[string]*regexp.Regexp{
	"RUN":   regexp.MustCompile(`run_[0-9a-z]+`),
	"FILE":  regexp.MustCompile(`file-[0-9a-zA-Z]+`),
	"BATCH": regexp.MustCompile(`batch_[0-9a-zA-Z]+`),
}

// maskedInTranscript are the parts of output that differ from run to run.
var maskedInTranscript = []struct {
	part *regexp.Regexp
	by   string
}{
	{regexp.MustCompile(`run_[0-9a-z]+`), "RUN"}, {regexp.MustCompile(`file-[0-9a-zA-Z]+`), "FILE"},
	{regexp.MustCompile(`batch_[0-9a-zA-Z]+`), "BATCH"}, {regexp.MustCompile(`req_[0-9A-Z]+`), "REQUEST"},
	{regexp.MustCompile(`127\.0\.0\.1:\d+`), "HOST"}, {regexp.MustCompile(`\bpbt?-[0-9A-Za-z_-]{10,}`), "TEXT"},
	{regexp.MustCompile(`\bkey-[0-9a-z]{6,}|\b[0-9a-f]{15,}\b|\b[a-z2-7]{26}\b|\bi-[0-9a-f]{10}\b`), "HEX"}, {regexp.MustCompile(`\b[A-Z2-7]{12,}\b`), "ID"},
	{regexp.MustCompile(`20[23]\d-\d\d-\d\d[T ]\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)?`), "TIME"},
	{regexp.MustCompile(`\b(\d+h)?(\d+m)?\d+(\.\d+)?(s|ms|µs)\b`), "TOOK"}, {regexp.MustCompile(`[A-Za-z0-9+/]{43}=`), "PUBLIC"},
	{regexp.MustCompile(`"(pid|memory|bytes|\w+Ms|startTook)": [0-9.]+`), `"$1": 0`},
	{regexp.MustCompile(`[\d.]+ [KMG]i?B\b`), "BYTES"}, {regexp.MustCompile(`(works +\w+ +TOOK +)\d+ +\S+`), "${1}PID BYTES"},
	{regexp.MustCompile(`\b(starting|ready)\b`), "starting or ready"}, {regexp.MustCompile(` {2,}`), "  "},
	{regexp.MustCompile(`  k  \d+  TIME`), "  k  BYTES  TIME"},
	{regexp.MustCompile(`ago  -  `), "ago  BYTES  "}, {regexp.MustCompile(`\n +"bytes": 0,(\n +"loads")`), "$1"}, // the host may not have been asked yet
}

// Verbs that ask a gateway print what they have always printed, and exit as they have.
func TestTranscriptOfVerbs(t *testing.T) {
	t.Parallel()
	gatewaytest.Needs(t, "runs", "processes", "batches", "audit")
	const golden = "testdata/transcript"
	host, err := simulator.Start(simulator.Options{Kind: simulator.Ollama, Models: []string{"m"}, Engine: &engine.Spec{Block: 16, Cache: 1600, Room: 1, Load: 0.01}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(host.Close)
	data := t.TempDir()
	file, prompts := filepath.Join(t.TempDir(), "patchbay.yaml"), filepath.Join(t.TempDir(), "prompts.txt")
	gatewaytest.WriteFile(t, prompts, "one\n")
	gatewaytest.WriteFile(t, file, gatewaytest.PolicyYAML("residency: {enabled: true}", gatewaytest.Instance("m", host.URL(), "adapter: ollama"))+`
security: {enabled: true, tokens: [{name: a, role: ADMIN, token-sha256: "${sha256:A}"}, {name: v, role: VIEWER, token-sha256: "${sha256:V}"}], keys: [{id: k, tenant: acme, key-sha256: "${sha256:K}"}]}
runs: {enabled: true, limits: {requests: 9, time: 4h}}
batches: {enabled: true}
processes:
  breaks: {command: [sh, -c, "echo loading; echo 'error: out of memory' >&2; exit 3"], ready: "http://127.0.0.1:1/", restarts: 0}
  works: `+demoProcess(t, "")+`
`)
	c := startChildWith(t, []string{"V=viewer", "A=administrator", "K=key"}, "serve", "--listen", "127.0.0.1:0", "--config", file, "--data-dir", t.TempDir())
	c.waitFor(`"msg":"listening"`)
	c.askAs("key", http.MethodPost, "/v1/chat/completions", gatewaytest.PlainHi, "X-Router-Run", "agent")
	ids, seen := map[string]string{}, strings.Builder{}
	perform := func(line string, args ...string) {
		stdout := &strings.Builder{}
		if !slices.Contains(args, "--data-dir") {
			args = append(args, "--url", c.url())
		}
		code := run(args, nil, stdout, stdout)
		for name, pattern := range idsOfTranscript {
			if id := pattern.FindString(stdout.String()); id != "" && ids[name] == "" {
				ids[name] = id
			}
		}
		fmt.Fprintf(&seen, "$ patchbay %s\n%s(%d)\n\n", line, stdout.String(), code)
	}
	perform("batches submit", "batches", "submit", prompts, "--model", "m", "--key", "key")
	run([]string{"batches", "follow", "--key", "key", "--url", c.url()}, nil, io.Discard, io.Discard) // what it prints depends on time
	// Files of the same second have no certain order, so one is left.
	output := regexp.MustCompile(`file-\w+-batch_\w+-output-1|file-batch_\w+-output-1`).FindString(c.askAs("key", http.MethodGet, "/v1/files", "").Body)
	if code := run([]string{"files", "delete", output, "--token", "administrator", "--url", c.url()}, nil, io.Discard, io.Discard); code != exitOK {
		t.Fatalf("deleting %q: %d", output, code)
	}
	for line := range strings.Lines(strings.TrimPrefix(transcriptLines, "\n")) {
		line = strings.TrimSuffix(line, "\n")
		args := strings.Split(line, " ")
		for i, arg := range args {
			if id := ids[arg]; id != "" {
				args[i] = id
			}
			if arg == "K" {
				args[i] = "key"
			}
		}
		switch {
		case strings.HasSuffix(line, "DATA"):
			args[len(args)-1] = data
		case !strings.Contains(line, "--token ") && !strings.Contains(line, "--key ") && !strings.Contains(line, "nowhere"):
			args = append(args, "--token", "administrator")
		}
		perform(line, args...)
	}
	got := seen.String()
	for _, m := range maskedInTranscript {
		got = m.part.ReplaceAllString(got, m.by)
	}
	if os.Getenv("UPDATE") != "" {
		gatewaytest.WriteFile(t, golden, got)
	}
	want := string(gatewaytest.ReadFile(t, golden))
	for i, line := range strings.Split(got, "\n") {
		if lines := strings.Split(want, "\n"); i >= len(lines) || lines[i] != line {
			t.Fatalf("line %d of the transcript is %q; UPDATE=1 writes it\n%s", i+1, line, got)
		}
	}
}

// demoProcess is the entry of a process that is the demo: a model server that needs no
// model.
func demoProcess(t *testing.T, more string) string {
	t.Helper()
	return fmt.Sprintf(`{command: [%q, demo, --listen, "127.0.0.1:$PORT", --data-dir, %q], ready: "http://127.0.0.1:$PORT/actuator/health", start-timeout: 2m%s}`,
		binary, t.TempDir(), more)
}
