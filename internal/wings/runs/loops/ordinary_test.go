package loops_test

import (
	"bufio"
	"compress/gzip"
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/patchbay-ai/patchbay/internal/request/schema"
	"github.com/patchbay-ai/patchbay/internal/wings/runs/loops"
	"github.com/patchbay-ai/patchbay/internal/wings/runs/turns"
)

// conversation is all that an agent and a model said to each other in a run.
type conversation struct {
	Path     string
	Messages []json.RawMessage
	Input    []json.RawMessage
}

// ordinaryRuns returns the runs that test/agents/ordinary.mjs has recorded of Claude Code and Codex: a
// model worked in them, and its calls of tools were carried out.
func ordinaryRuns(t *testing.T) (all []conversation) {
	t.Helper()
	file, err := os.Open("testdata/ordinary.jsonl.gz")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = file.Close() }()
	unpacked, err := gzip.NewReader(file)
	if err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(unpacked)
	lines.Buffer(nil, 16<<20)
	for lines.Scan() {
		var c conversation
		if err := json.Unmarshal(lines.Bytes(), &c); err != nil {
			t.Fatal(err)
		}
		all = append(all, c)
	}
	if err := lines.Err(); err != nil {
		t.Fatal(err)
	}
	return all
}

// send sends the calls of a run one after the other, each with what was said until then, and
// returns how many there are and the first finding.
func (c conversation) send(t *testing.T, s *loops.Settings) (calls int, f loops.Finding, found bool) {
	t.Helper()
	door, name, items := schema.DoorMessages, "messages", c.Messages
	if c.Path == "/v1/responses" {
		door, name, items = schema.DoorResponses, "input", c.Input
	}
	isOfModel := func(i int) bool {
		text := string(items[i])
		return strings.Contains(text, `"role":"assistant"`) || strings.Contains(text, `"type":"function_call",`) ||
			strings.Contains(text, `"type":"reasoning"`)
	}
	reader := turns.NewReader()
	var w loops.Watch
	for n := 1; n <= len(items); n++ {
		if n < len(items) && (!isOfModel(n) || isOfModel(n-1)) {
			continue
		}
		body, err := json.Marshal(map[string]any{"model": "m", name: items[:n]})
		if err != nil {
			t.Fatal(err)
		}
		req := &schema.Request{Door: door}
		if err := req.Body.Parse(body); err != nil {
			t.Fatal(err)
		}
		turn, _ := reader.Read(req, "")
		calls++
		if f, found = w.Next(s, turn); found {
			return calls, f, true
		}
		w.Ended(turn, false, int64(len(body)), 20)
	}
	return calls, f, false
}

// TestOrdinaryRunsAreNotStopped sends a hundred recorded runs with the action stop and the default
// thresholds. No stop in a hundred says that fewer than 3 of 100 such runs are stopped, with a
// confidence of 95 %; 222 published runs of other agents on real models were not stopped either,
// which says fewer than 1.4 of 100.
func TestOrdinaryRunsAreNotStopped(t *testing.T) {
	s := loops.DefaultSettings()
	s.Action = loops.Stop
	all, sent := ordinaryRuns(t), 0
	for i, c := range all {
		calls, f, found := c.send(t, &s)
		if sent += calls; found {
			t.Errorf("run %d is stopped at call %d: %+v", i, calls, f)
		}
		if c.repeatLast(s.Repeats - 1); i%10 != 0 {
			continue
		}
		if again, f, found := c.send(t, &s); !found || f.Rule != loops.SameResult {
			t.Errorf("run %d is not stopped when its last step comes %d times: %d calls", i, s.Repeats, again)
		}
	}
	if len(all) < 100 || sent < 1000 {
		t.Errorf("there are %d runs with %d calls", len(all), sent)
	}
}

// repeatLast lets the last step of a run come again and again.
func (c *conversation) repeatLast(times int) {
	for _, list := range []*[]json.RawMessage{&c.Messages, &c.Input} {
		if n := len(*list); n >= 2 {
			for range times {
				*list = append(*list, (*list)[n-2:n]...)
			}
		}
	}
}
