package main

import (
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestTableHasEveryPolicy(t *testing.T) {
	var out strings.Builder
	if err := run([]string{"-workload", "twomodels"}, strings.NewReader(""), &out); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"twomodels: 200 requests", "round_robin", "least_connections", "least_time"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is not in\n%s", want, out.String())
		}
	}
}

func TestEnginesDifferByTheirSpeeds(t *testing.T) {
	means := map[string]string{}
	for _, speeds := range []string{"1,1", "1,0.1"} {
		var out strings.Builder
		if err := run([]string{"-workload", "twomodels", "-speeds", speeds}, strings.NewReader(""), &out); err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(out.String(), "oracle") {
			t.Errorf("%s: nobody knows the speeds in\n%s", speeds, out.String())
		}
		for line := range strings.Lines(out.String()) {
			if fields := strings.Fields(line); len(fields) > 2 && fields[0] == "round_robin" {
				means[speeds] = fields[2]
			}
		}
	}
	if means["1,1"] == means["1,0.1"] || len(means) != 2 {
		t.Errorf("round robin has %v seconds, whatever the speeds are", means)
	}
}

// TestMeasurementsBecomeLines reads back a line, with a figure that nobody measured.
func TestMeasurementsBecomeLines(t *testing.T) {
	o := overHTTP{lines: filepath.Join(t.TempDir(), "lines"), speeds: []float64{1, 0.5}}
	m := measured{strategy: "smg", tokens: 100, cached: 30}
	m.Mean, m.Learned = 1.5, math.NaN()
	for round := range 2 {
		if err := o.note(&plan{name: "agents"}, m, round+1); err != nil {
			t.Fatal(err)
		}
	}
	text, err := os.ReadFile(o.lines)
	if err != nil {
		t.Fatal(err)
	}
	all := strings.Split(strings.TrimSpace(string(text)), "\n")
	var second map[string]any
	if err := json.Unmarshal([]byte(all[len(all)-1]), &second); err != nil || len(all) != 2 {
		t.Fatalf("%d lines, %v", len(all), err)
	}
	_, learned := second["learned"]
	if second["router"] != "smg" || second["round"] != 2.0 || second["mean"] != 1.5 || second["computed"] != 70.0 || learned {
		t.Errorf("%v", second)
	}
}

func TestTracesAreRead(t *testing.T) {
	if err := run([]string{"-trace", "missing.jsonl"}, strings.NewReader(""), &strings.Builder{}); err == nil {
		t.Error("a trace that does not exist was read")
	}
}

func TestWhatIsMissingOverHTTPIsNamed(t *testing.T) {
	routers := t.TempDir()
	for name, script := range map[string]string{"silent": "exec sleep 60\n", "broken": "# health: /x\nexec no-such-router\n"} {
		if err := os.WriteFile(filepath.Join(routers, name+".sh"), []byte(script), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		want string
		args []string
	}{
		{"no/patchbay", []string{"-http", "no/patchbay", "-until", "1"}},
		{`"0" is no number above 0`, []string{"-speeds", "1,0"}},
		{`"fast" is no number above 0`, []string{"-speeds", "fast"}},
		{"-rounds", []string{"-http", "no/patchbay", "-rounds", "0"}},
		{`no line "# health: /path"`, []string{"-http", "no/patchbay", "-routers", routers, "-strategies", "silent", "-until", "1"}},
		{"no-such-router", []string{"-http", "no/patchbay", "-routers", routers, "-strategies", "broken", "-until", "1"}},
		{`no workload "none"`, []string{"-http", "no/patchbay", "-workload", "none"}},
		{"skipped: llama.cpp's server is missing", []string{"-http", "no/patchbay", "-llama-server", "no/llama-server"}},
		{"skipped: the model for llama.cpp's server is missing", []string{"-http", "no/patchbay", "-llama-server", os.Args[0], "-model", "no.gguf"}},
	} {
		if err := run(c.args, strings.NewReader(""), &strings.Builder{}); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v: %v, want %q", c.args, err, c.want)
		}
	}
}

// TestOtherSimulationsAreServed plays the other side of -exec: requests with the same
// number, an instance that goes, a prompt that comes again.
func TestOtherSimulationsAreServed(t *testing.T) {
	const blocks = `"blocks":[1,2,3,4,5,6,7,8,9,10,11,12],"tokens":6200,"model":"m","session":"None"`
	in := `{"op":"start","instances":2,"block":512,"kv_tokens":1228800,"room":0}
{"op":"route","t":0,"id":7,` + blocks + `,"up":[0,1]}
{"op":"route","t":0,"id":7,"blocks":[20],"tokens":700,"model":"m","session":"None","up":[0,1]}
`
	first := lines(t, in)
	if len(first) != 2 || first[0] == first[1] {
		t.Fatalf("%q: the second request has another instance to go to", first)
	}
	home := first[0]
	instance := strings.TrimSuffix(strings.TrimPrefix(home, `{"instance":`), "}")
	in += `{"op":"first","t":1,"id":7,"instance":` + instance + `,"cached":0}
{"op":"end","t":2,"id":7,"instance":` + instance + `}
{"op":"route","t":60,"id":8,` + blocks + `,"up":[0,1]}
`
	if got := lines(t, in); got[2] != home {
		t.Errorf("%q: the prompt is cached elsewhere", got)
	}
	in += `{"op":"down","instance":` + instance + `}
{"op":"route","t":61,"id":9,` + blocks + `,"up":[` + map[string]string{"0": "1", "1": "0"}[instance] + `]}
`
	if got := lines(t, in); got[3] == home {
		t.Errorf("%q: the instance is gone", got)
	}
	for _, wrong := range []string{`{"op":"route"}`, `{"op":`} {
		if err := run([]string{"-exec"}, strings.NewReader(wrong), &strings.Builder{}); err == nil {
			t.Errorf("%s was taken", wrong)
		}
	}
}

func lines(t *testing.T, in string) []string {
	t.Helper()
	var out strings.Builder
	if err := run([]string{"-exec"}, strings.NewReader(in), &out); err != nil {
		t.Fatal(err)
	}
	return strings.Split(strings.TrimSpace(out.String()), "\n")
}
