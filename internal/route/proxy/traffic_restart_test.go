package proxy_test

import (
	"bufio"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"

	"github.com/patchbay-ai/patchbay/internal/gateway/gatewaytest"
	"github.com/patchbay-ai/patchbay/internal/testing/simulator"
)

// streamDoor is a door whose streams are read in these tests.
type streamDoor struct {
	name, path, ask string
}

// streamDoors are all doors that stream chats. Their requests have room for more members.
var streamDoors = []streamDoor{
	{"chat", "/v1/chat/completions", `{"model":"m","stream":true,"stream_options":{"include_usage":true},"messages":[{"role":"user","content":"hi"}]%s}`},
	{"messages", "/v1/messages", `{"model":"m","stream":true,"max_tokens":1000,"messages":[{"role":"user","content":"hi"}]%s}`},
	{"responses", "/v1/responses", `{"model":"m","stream":true,"store":false,"input":"hi"%s}`},
	{"completions", "/v1/completions", `{"model":"m","stream":true,"stream_options":{"include_usage":true},"prompt":"Once upon a time"%s}`},
}

// lineDoors are those whose streams are lines of JSON, which have neither ids nor comments.
var lineDoors = []streamDoor{
	{"ollama chat", "/ollama/api/chat", `{"model":"m","messages":[{"role":"user","content":"hi"}]%s}`},
	{"ollama generate", "/ollama/api/generate", `{"model":"m","prompt":"hi"%s}`},
}

// post sends a request with more members and headers, and reads the stream that answers it.
func (d streamDoor) post(t *testing.T, r *gatewaytest.Gateway, more string, headers ...string) *joined {
	t.Helper()
	if strings.HasPrefix(d.name, "ollama") {
		more = strings.Replace(more, `"temperature":0`, `"options":{"temperature":0}`, 1)
	}
	reply := r.Do("POST", d.path, fmt.Sprintf(d.ask, more), append([]string{"Content-Type", "application/json", "Anthropic-Version", "2023-06-01"}, headers...)...)
	reply.Succeeds(t)
	return readJoined(t, d.name, reply.Body)
}

// joined is what a client of a door makes of a stream.
type joined struct {
	text     string
	ids      []string // all that name the answer, each once
	starts   int      // how often it was said that the answer begins
	finish   string
	prompt   int64
	answer   int64 // tokens
	complete bool
	failed   string // the code of the error with which the stream ends
	comments []string
	events   int
}

func (j *joined) name(id string) {
	if id != "" && !slices.Contains(j.ids, id) {
		j.ids = append(j.ids, id)
	}
}

// wireEvent has the members of the events of all doors that matter here.
type wireEvent struct {
	Type    string `json:"type"`
	ID      string `json:"id"`
	Choices []struct {
		Text  string `json:"text"`
		Delta struct {
			Role    string `json:"role"`
			Content string `json:"content"`
		} `json:"delta"`
		Finish string `json:"finish_reason"`
	} `json:"choices"`
	Usage   wireUsage `json:"usage"`
	Message struct {
		ID string `json:"id"`
	} `json:"message"`
	Response struct {
		ID    string    `json:"id"`
		Usage wireUsage `json:"usage"`
	} `json:"response"`
	Item struct {
		ID string `json:"id"`
	} `json:"item"`
	Error struct {
		Code string `json:"code"`
	} `json:"error"`
}

type wireUsage struct {
	Prompt int64 `json:"prompt_tokens"`
	Answer int64 `json:"completion_tokens"`
	Input  int64 `json:"input_tokens"`
	Output int64 `json:"output_tokens"`
}

// readJoined reads the stream of a door. Numbers of events must have no gaps.
func readJoined(t *testing.T, door, body string) *joined {
	t.Helper()
	j := &joined{}
	if strings.HasPrefix(door, "ollama") {
		j.readLines(t, body)
		return j
	}
	sequence := int64(0)
	lines := bufio.NewScanner(strings.NewReader(body))
	lines.Buffer(nil, 16<<20)
	for lines.Scan() {
		data, isData := strings.CutPrefix(lines.Text(), "data: ")
		if strings.HasPrefix(lines.Text(), ":") {
			j.comments = append(j.comments, lines.Text())
		}
		if !isData {
			continue
		}
		if data == "[DONE]" {
			j.complete = true
			continue
		}
		j.events++
		var e wireEvent
		var number struct {
			Sequence *int64 `json:"sequence_number"`
		}
		var delta struct {
			Delta string `json:"delta"`
		}
		var piece struct {
			Delta struct {
				Text string `json:"text"`
				Stop string `json:"stop_reason"`
			} `json:"delta"`
		}
		if err := json.Unmarshal([]byte(data), &e); err != nil {
			t.Fatalf("%v: %s", err, data)
		}
		_ = json.Unmarshal([]byte(data), &number)
		_ = json.Unmarshal([]byte(data), &delta)
		_ = json.Unmarshal([]byte(data), &piece)
		if number.Sequence != nil {
			if *number.Sequence != sequence {
				t.Errorf("event %d follows event %d", *number.Sequence, sequence-1)
			}
			sequence++
		}
		if door == "chat" || door == "completions" {
			j.name(e.ID)
		}
		for _, c := range e.Choices {
			j.text += c.Delta.Content + c.Text
			if c.Delta.Role != "" {
				j.starts++
			}
			if c.Finish != "" {
				j.finish = c.Finish
			}
		}
		j.count(e.Usage)
		j.failed += e.Error.Code
		switch e.Type {
		case "message_start":
			j.starts++
			j.name(e.Message.ID)
		case "content_block_delta":
			j.text += piece.Delta.Text
		case "message_delta":
			j.finish = piece.Delta.Stop
		case "message_stop":
			j.complete = true
		case "response.created":
			j.starts++
			j.name(e.Response.ID)
		case "response.output_text.delta":
			j.text += delta.Delta
		case "response.completed", "response.incomplete":
			j.name(e.Response.ID)
			j.count(e.Response.Usage)
			j.complete, j.finish = true, strings.TrimPrefix(e.Type, "response.")
		case "response.failed":
			j.failed = "failed"
		}
	}
	return j
}

// readLines reads a stream of lines. As they have no ids, the answer has one that is made up.
func (j *joined) readLines(t *testing.T, body string) {
	t.Helper()
	j.name("lines")
	for line := range strings.Lines(body) {
		var e struct {
			Message struct {
				Content string `json:"content"`
			} `json:"message"`
			Response string `json:"response"`
			Done     bool   `json:"done"`
			Reason   string `json:"done_reason"`
			Prompt   int64  `json:"prompt_eval_count"`
			Answer   int64  `json:"eval_count"`
			Error    string `json:"error"`
		}
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			t.Fatalf("%v: %s", err, line)
		}
		j.events++
		j.text += e.Message.Content + e.Response
		j.failed += e.Error
		if e.Done {
			j.complete, j.finish, j.prompt, j.answer = true, e.Reason, e.Prompt, e.Answer
		}
	}
}

func (j *joined) count(u wireUsage) {
	if n := u.Prompt + u.Input; n > 0 {
		j.prompt = n
	}
	if n := u.Answer + u.Output; n > 0 {
		j.answer = n
	}
}

// is checks that a stream is one whole answer.
func (j *joined) is(t *testing.T, text string) {
	t.Helper()
	if j.text != text || !j.complete || j.failed != "" || len(j.ids) != 1 {
		t.Fatalf("got %q, complete %t, failed %q, ids %v; want %q", j.text, j.complete, j.failed, j.ids, text)
	}
}

// The first event of a stream often says only that the answer begins. What breaks between it
// and the first token costs the client nothing: another instance answers, under the same id.
func TestAStreamThatBreaksBeforeItsFirstTokenIsAnsweredElsewhere(t *testing.T) {
	t.Parallel()
	const text = "Ça va, 你好 🙂!"
	for name, broken := range map[string]simulator.Step{
		"reset":      {Stop: simulator.StopReset, After: 1},
		"closed":     {Stop: simulator.StopClose, After: 1},
		"half event": {Stop: simulator.StopClose, After: 1, MidEvent: true},
		"error":      {StreamError: "out of memory", After: 1},
		"stalls":     {Stop: simulator.StopStall, After: 1},
		"too early":  {Stop: simulator.StopEnd, After: 1},
	} {
		for _, door := range streamDoors[:3] {
			t.Run(name+"/"+door.name, func(t *testing.T) {
				t.Parallel()
				a, b := gatewaytest.StartBackend(t, broken), gatewaytest.StartBackend(t, simulator.Step{Text: text})
				idle := ""
				if broken.Stop == simulator.StopStall {
					idle = "timeouts: {idle: 150ms}, "
				}
				r := gatewaytest.Start(t, gatewaytest.PolicyYAML(idle+gatewaytest.NoBreakerNoChecks, gatewaytest.Instance("m", a.URL()), gatewaytest.Instance("m", b.URL())))
				got := door.post(t, r, "")
				got.is(t, text)
				if got.starts != 1 || got.answer != 7 {
					t.Errorf("the answer began %d times and has %d tokens", got.starts, got.answer)
				}
				if a.Stats().Arrived != 1 || b.Stats().Arrived != 1 {
					t.Errorf("%d and %d calls", a.Stats().Arrived, b.Stats().Arrived)
				}
				gatewaytest.Eventually(t, "nothing is in flight", func() bool {
					return r.Instances("m")[0].InFlight() == 0 && r.Instances("m")[1].InFlight() == 0
				})
				if _, failures, _ := gatewaytest.Outcomes(r.Instances("m")[0]); failures != 1 {
					t.Errorf("%d failures of the instance that broke", failures)
				}
			})
		}
	}
}

// A further attempt before the first token counts as every other one does.
func TestAnswersBeforeTheFirstTokenCountInMaxAttempts(t *testing.T) {
	t.Parallel()
	broken := simulator.Step{Stop: simulator.StopReset, After: 1}
	for attempts, want := range map[int]bool{1: false, 2: false, 3: true} {
		a, b, c := gatewaytest.StartBackend(t, broken), gatewaytest.StartBackend(t, broken), gatewaytest.StartBackend(t, simulator.Step{Text: "done"})
		r := gatewaytest.Start(t, fmt.Sprintf("limits: {max-attempts: %d}\n", attempts)+gatewaytest.PoolYAML(a, b, c))
		got := streamDoors[0].post(t, r, "")
		if got.complete != want || want != (got.failed == "") {
			t.Errorf("%d attempts: complete %t, failed %q", attempts, got.complete, got.failed)
		}
		if calls := a.Stats().Arrived + b.Stats().Arrived + c.Stats().Arrived; calls != attempts {
			t.Errorf("%d calls with %d attempts", calls, attempts)
		}
	}
}

// The client has what the model made: without a way to go on with that, nobody answers anew.
func TestAStreamThatBreaksBehindItsFirstTokenEnds(t *testing.T) {
	t.Parallel()
	for _, door := range streamDoors {
		a, b := gatewaytest.StartBackend(t, simulator.Step{Stop: simulator.StopReset, After: 3}), gatewaytest.StartBackend(t)
		r := gatewaytest.Start(t, gatewaytest.PoolYAML(a, b))
		if got := door.post(t, r, ""); got.complete || got.text == "" || got.failed == "" && door.name != "messages" {
			t.Errorf("%s: %+v", door.name, got)
		}
		if b.Stats().Arrived != 0 {
			t.Errorf("%s: somebody else was called", door.name)
		}
	}
}

// A client that leaves while another instance is called frees that one, too.
func TestAClientThatLeavesWhileAnAnswerGoesOnFreesTheBackend(t *testing.T) {
	t.Parallel()
	a, b := gatewaytest.StartBackend(t, simulator.Step{Stop: simulator.StopReset, After: 1}), gatewaytest.StartBackend(t, simulator.Step{Hang: true})
	r := gatewaytest.Start(t, gatewaytest.PoolYAML(a, b))
	stream := r.Stream(gatewaytest.Deadline(t), gatewaytest.StreamHi)
	if _, err := stream.Next(); err != nil {
		t.Fatal(err)
	}
	gatewaytest.Eventually(t, "the other one is called", func() bool { return b.Stats().Arrived == 1 })
	r.Halt()
	gatewaytest.Eventually(t, "it is free again", func() bool { return r.Instances("m")[1].InFlight() == 0 })
}
