package messages

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/go-cmp/cmp"

	"github.com/patchbay-ai/patchbay/internal/dialect"
	"github.com/patchbay-ai/patchbay/internal/dialect/anthropic"
	"github.com/patchbay-ai/patchbay/internal/dialect/openai"
	"github.com/patchbay-ai/patchbay/internal/dialect/wire"
	"github.com/patchbay-ai/patchbay/internal/request/chat"
	"github.com/patchbay-ai/patchbay/internal/request/jsonwrite"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
)

func read(t testing.TB, body string) *schema.Request {
	t.Helper()
	req := new(schema.Request)
	if err := ReadRequest(req, []byte(body)); err != nil {
		t.Fatalf("%v: %s", err, body)
	}
	return req
}

func decode[T any](t testing.TB, text []byte) (value T) {
	t.Helper()
	if err := json.Unmarshal(text, &value); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	return value
}

// pick returns one of several values.
func pick[T any](r *rand.Rand, values ...T) T { return values[r.IntN(len(values))] }

// someText returns a text that needs care.
func someText(r *rand.Rand) string {
	return pick(r, "hi", "a \"quoted\" text", "line\nline", "你好 🌍", `back\slash`, "<tag>", "\u2028", "x") + fmt.Sprint(r.IntN(10))
}

// completion is a completion, or what is collected of one.
type completion struct {
	Text, Thinking, Refusal string
	Calls                   []call
	Finish                  string
	Prompt, Output, Cached  int
}

type call struct{ ID, Name, Arguments string }

func someCompletion(r *rand.Rand) completion {
	c := completion{Finish: "stop", Prompt: 10 + r.IntN(100), Output: 1 + r.IntN(100), Cached: r.IntN(10)}
	if r.IntN(2) == 0 {
		c.Thinking = someText(r)
	}
	if r.IntN(4) > 0 {
		c.Text = someText(r)
	}
	for i := range r.IntN(4) {
		arguments, _ := json.Marshal(map[string]string{"a": someText(r)})
		c.Calls = append(c.Calls, call{fmt.Sprintf("%s_%d", pick(r, "call", "toolu", "functions.f:", "é"), i), pick(r, "f", "get_weather"), string(arguments)})
	}
	switch {
	case len(c.Calls) > 0:
		c.Finish = "tool_calls"
	case c.Text == "" && r.IntN(2) == 0:
		c.Finish, c.Refusal = "content_filter", someText(r)
	default:
		c.Finish = pick(r, "stop", "length")
	}
	return c
}

func quoted(text string) string { return string(must(json.Marshal(text))) }

func must[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}

func (c completion) usage() string {
	return fmt.Sprintf(`{"prompt_tokens":%d,"completion_tokens":%d,"total_tokens":%d,"prompt_tokens_details":{"cached_tokens":%d}}`, c.Prompt, c.Output, c.Prompt+c.Output, c.Cached)
}

// whole writes the completion.
func (c completion) whole() string {
	message := `"role":"assistant","content":` + quoted(c.Text)
	if c.Refusal != "" {
		message = `"role":"assistant","content":null,"refusal":` + quoted(c.Refusal)
	}
	if c.Thinking != "" {
		message += `,"reasoning_content":` + quoted(c.Thinking)
	}
	var calls []string
	for _, call := range c.Calls {
		calls = append(calls, fmt.Sprintf(`{"id":%s,"type":"function","function":{"name":%q,"arguments":%s}}`, quoted(call.ID), call.Name, quoted(call.Arguments)))
	}
	if calls != nil {
		message += `,"tool_calls":[` + strings.Join(calls, ",") + `]`
	}
	return fmt.Sprintf(`{"id":"c","model":"up","choices":[{"index":0,"message":{%s},"finish_reason":%q}],"usage":%s}`, message, c.Finish, c.usage())
}

// chunks writes the completion as a stream, cut at random.
func (c completion) chunks(r *rand.Rand) (stream []byte) {
	add := func(delta, finish string) {
		stream = append(stream, `data: {"id":"c","choices":[{"index":0,"delta":{`+delta+`},"finish_reason":`+finish+"}]}\n\n"...)
	}
	add(`"role":"assistant","content":""`, "null")
	pieces := func(text string, write func(piece string)) {
		runes := []rune(text)
		for len(runes) > 0 {
			n := 1 + r.IntN(len(runes))
			write(quoted(string(runes[:n])))
			runes = runes[n:]
		}
	}
	pieces(c.Thinking, func(p string) { add(pick(r, `"reasoning_content":`, `"reasoning":`)+p, "null") })
	pieces(c.Text, func(p string) { add(`"content":`+p, "null") })
	pieces(c.Refusal, func(p string) { add(`"refusal":`+p, "null") })
	for i, call := range c.Calls {
		add(fmt.Sprintf(`"tool_calls":[{"index":%d,"id":%s,"type":"function","function":{"name":%q,"arguments":""}}]`, i, quoted(call.ID), call.Name), "null")
		pieces(call.Arguments, func(p string) {
			add(fmt.Sprintf(`"tool_calls":[{"index":%d,"function":{"arguments":%s}}]`, i, p), "null")
		})
	}
	add("", quoted(c.Finish))
	return append(stream, `data: {"id":"c","choices":[],"usage":`+c.usage()+"}\n\n"...)
}

// unifiedMessage is a message or delta.
type unifiedMessage struct {
	Content   *string `json:"content"`
	Reasoning string  `json:"reasoning_content"`
	Refusal   *string `json:"refusal"`
	ToolCalls []struct {
		Index    int    `json:"index"`
		ID       string `json:"id"`
		Function struct {
			Name      string `json:"name"`
			Arguments string `json:"arguments"`
		} `json:"function"`
	} `json:"tool_calls"`
}

// add adds what a message or delta says. Calls get their own ids back.
func (c *completion) add(m unifiedMessage) {
	if m.Content != nil {
		c.Text += *m.Content
	}
	if m.Refusal != nil {
		c.Refusal += *m.Refusal
	}
	c.Thinking += m.Reasoning
	for i, piece := range m.ToolCalls {
		if at := max(piece.Index, i); at == len(c.Calls) {
			id, _ := unmarkCall([]byte(piece.ID))
			c.Calls = append(c.Calls, call{ID: string(id), Name: piece.Function.Name})
		}
		c.Calls[max(piece.Index, i)].Arguments += piece.Function.Arguments
	}
}

type unifiedUsage struct {
	Prompt  int `json:"prompt_tokens"`
	Output  int `json:"completion_tokens"`
	Details struct {
		Cached int `json:"cached_tokens"`
	} `json:"prompt_tokens_details"`
}

func (c *completion) count(u *unifiedUsage) {
	if u != nil {
		c.Prompt, c.Output, c.Cached = u.Prompt, u.Output, u.Details.Cached
	}
}

// What a backend answered, written for a client of this API and read again as the
// answer of a backend that speaks it, is what it was: nothing is lost that both can
// express.
func TestAnswersLoseNothingOnTheWay(t *testing.T) {
	seed := rand.Uint64()
	r := rand.New(rand.NewPCG(seed, 1))
	req := read(t, `{"model":"m","max_tokens":9,"stream":false,"messages":[{"role":"user","content":"hi"}]}`)
	stream := read(t, `{"model":"m","max_tokens":9,"stream":true,"messages":[{"role":"user","content":"hi"}]}`)
	unified := new(schema.Request)
	if err := unified.ParseChat([]byte(`{"model":"m","stream_options":{"include_usage":true},"messages":[{"role":"user","content":"hi"}]}`)); err != nil {
		t.Fatal(err)
	}
	backend := dialect.Speaker{Adapter: anthropic.Chat}
	for range 300 {
		want := someCompletion(r)
		var reply dialect.Reply
		var answer chat.Answer
		if err := openai.Chat.Decode(req, []byte(want.whole()), &reply.Doc, &answer); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		if err := Client.Reply(req, &answer, &reply); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		message := bytes.Join(reply.Segments, nil)
		var back dialect.Reply
		if err := backend.Reply(unified, dialect.Answer{Body: message}, &back); err != nil {
			t.Fatalf("seed %d: %v in %s", seed, err, message)
		}
		whole := decode[struct {
			Choices []struct {
				Message unifiedMessage `json:"message"`
				Finish  string         `json:"finish_reason"`
			} `json:"choices"`
			Usage *unifiedUsage `json:"usage"`
		}](t, bytes.Join(back.Segments, nil))
		got := completion{Finish: whole.Choices[0].Finish}
		got.add(whole.Choices[0].Message)
		got.count(whole.Usage)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("seed %d, whole (-want +got):\n%s\n%s", seed, diff, message)
		}

		frames := allFrames(t, Client.Events(stream, openai.Chat.DecodeStream(stream, bytes.NewReader(want.chunks(r)))))
		got = completion{}
		events := backend.Events(unified, bytes.NewReader(frames))
		for {
			chunk, err := events.Next()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatalf("seed %d: %v in %s", seed, err, frames)
			}
			piece := decode[struct {
				Choices []struct {
					Delta  unifiedMessage `json:"delta"`
					Finish *string        `json:"finish_reason"`
				} `json:"choices"`
				Usage *unifiedUsage `json:"usage"`
			}](t, chunk)
			for _, c := range piece.Choices {
				got.add(c.Delta)
				if c.Finish != nil {
					got.Finish = *c.Finish
				}
			}
			got.count(piece.Usage)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("seed %d, streamed (-want +got):\n%s\n%s", seed, diff, frames)
		}
	}
}

func allFrames(t *testing.T, events *dialect.Stream) (frames []byte) {
	t.Helper()
	for {
		frame, err := events.Next()
		if errors.Is(err, io.EOF) {
			if !events.IsComplete() {
				t.Error("the end came before the last event")
			}
			return frames
		}
		if err != nil {
			t.Fatal(err)
		}
		frames = append(frames, frame...)
	}
}

// A unified request, written for a backend of this API and read again as a client's,
// is what it was.
func TestRequestsLoseNothingOnTheWay(t *testing.T) {
	seed := rand.Uint64()
	r := rand.New(rand.NewPCG(seed, 2))
	for range 300 {
		body := someRequest(r)
		var req schema.Request
		if err := req.ParseChat([]byte(body)); err != nil {
			t.Fatalf("seed %d: %v: %s", seed, err, body)
		}
		var sent wire.Call
		if err := (anthropic.Chat).Call(&req, &dialect.Target{Path: "/v1/messages"}, &sent); err != nil {
			t.Fatalf("seed %d: %v: %s", seed, err, body)
		}
		message := bytes.Join(sent.Body, nil)
		back, err := unified(read(t, string(message)))
		if err != nil {
			t.Fatalf("seed %d: %v: %s", seed, err, message)
		}
		if diff := cmp.Diff(decode[map[string]any](t, []byte(body)), decode[map[string]any](t, back)); diff != "" {
			t.Fatalf("seed %d (-want +got):\n%s\n%s", seed, diff, message)
		}
	}
}

// unified returns a request in the unified shape.
func unified(req *schema.Request) ([]byte, error) {
	asked, err := req.Chat()
	if err != nil {
		return nil, err
	}
	w := jsonwrite.Writer{Out: []byte(`{"model":"m"`)}
	w.Close("")
	asked.Write(&w, "max_tokens")
	if req.Stream {
		w.Literal(`"stream":true,"stream_options":{"include_usage":true}`)
	}
	w.EndObject()
	return w.Out, nil
}

// someRequest returns a request in the form that unified writes.
func someRequest(r *rand.Rand) string {
	var turns []string
	if r.IntN(2) == 0 {
		turns = append(turns, `{"role":"system","content":`+quoted(someText(r))+`}`)
	}
	for i := range 1 + r.IntN(3) {
		user := quoted(someText(r))
		if r.IntN(2) == 0 {
			user = `[{"type":"text","text":` + user + `},` + pick(r, `{"type":"image_url","image_url":{"url":"data:image/png;base64,aGk="}}`,
				`{"type":"image_url","image_url":{"url":"https://x.test/a.png"}}`, `{"type":"text","text":"more"}`) + `]`
		}
		turns = append(turns, `{"role":"user","content":`+user+`}`)
		if r.IntN(3) == 0 {
			turns = append(turns, `{"role":"assistant","content":`+quoted(someText(r))+`}`)
			continue
		}
		arguments := quoted(string(must(json.Marshal(map[string]string{"a": someText(r)}))))
		turns = append(turns, fmt.Sprintf(`{"role":"assistant","content":%s,"tool_calls":[{"id":"c%da","type":"function","function":{"name":"f","arguments":%s}},{"id":"c%db","type":"function","function":{"name":"f","arguments":"{}"}}]}`,
			pick(r, "null", quoted(someText(r))), i, arguments, i),
			fmt.Sprintf(`{"role":"tool","tool_call_id":"c%da","content":%s}`, i, quoted(someText(r))), fmt.Sprintf(`{"role":"tool","tool_call_id":"c%db","content":"b"}`, i))
	}
	members := []string{`"model":"m"`, `"messages":[` + strings.Join(turns, ",") + `]`, fmt.Sprintf(`"max_tokens":%d`, 1+r.IntN(1000)),
		`"tools":[{"type":"function","function":{"name":"f","description":"d","parameters":{"type":"object","properties":{"a":{"type":"string"}}}}}]`}
	for _, member := range []string{
		`"temperature":0.5`, `"top_k":4`, `"stop":["a","b"]`, `"user":"u"`, `"tool_choice":` + pick(r, `"auto"`, `"required"`, `"none"`, `{"type":"function","function":{"name":"f"}}`),
		`"response_format":{"type":"json_schema","json_schema":{"name":"answer","strict":true,"schema":{"type":"object"}}}`,
	} {
		if r.IntN(2) == 0 {
			members = append(members, member)
		}
	}
	if r.IntN(2) == 0 {
		members = append(members, `"stream":true,"stream_options":{"include_usage":true}`)
	}
	return "{" + strings.Join(members, ",") + "}"
}

// What must come back in the next turn comes back as it was, whatever it is.
func TestMarksCarryWhatMustComeBack(t *testing.T) {
	for _, c := range []struct{ id, signature string }{
		{"call_1", ""}, {"toolu_01A", ""}, {"call_1", "U0lH+/="}, {"functions.f:0", ""}, {"é", "x"}, {"toolu_pb1_x", ""}, {"", "s"},
	} {
		marked := markCall([]byte(c.id), []byte(c.signature))
		if !isPlainID(marked) {
			t.Errorf("%q has characters that the API does not allow", marked)
		}
		if id, signature := unmarkCall(marked); string(id) != c.id || string(signature) != c.signature {
			t.Errorf("%q and %q came back as %q and %q", c.id, c.signature, id, signature)
		}
	}
	for _, own := range []string{"toolu_01A09q90qw90lq917835lq9", "toolu_pb1_", "toolu_pb1_%%%", "toolu_pb1_eA"} {
		if id, signature := unmarkCall([]byte(own)); string(id) != own || signature != nil {
			t.Errorf("%q is taken for a mark: %q, %q", own, id, signature)
		}
	}
	if signature, marked := unmarkThinking(markThinking([]byte("abc="))); string(signature) != "abc=" || !marked {
		t.Errorf("%q, %v", signature, marked)
	}
	if _, marked := unmarkThinking([]byte("EqQBCkYIB")); marked {
		t.Error("a signature of the provider is taken for one of the gateway")
	}
}

func TestEstimatesGrowWithTheText(t *testing.T) {
	estimate := func(body string) int64 {
		req := new(schema.Request)
		if err := ReadCountRequest(req, []byte(body)); err != nil {
			t.Fatal(err)
		}
		return Estimate(req)
	}
	short := estimate(`{"model":"m","messages":[{"role":"user","content":"Hello, world"}]}`)
	long := estimate(`{"model":"m","messages":[{"role":"user","content":"` + strings.Repeat("Hello, world. ", 1000) + `"}]}`)
	chinese := estimate(`{"model":"m","messages":[{"role":"user","content":"` + strings.Repeat("你", 1000) + `"}]}`)
	image := estimate(`{"model":"m","messages":[{"role":"user","content":[{"type":"image","source":{"type":"base64","media_type":"image/png","data":"` + strings.Repeat("A", 100000) + `"}}]}]}`)
	if short < 3 || short > 20 || long < 3000 || long > 5000 || chinese < 900 || chinese > 1200 || image < 1000 || image > 2000 {
		t.Errorf("%d, %d, %d, %d", short, long, chinese, image)
	}
}

// FuzzRead holds that a request is refused in the caller's words, or becomes a
// request of the unified API that is strict JSON, and that the client's own body stays
// as it is.
func FuzzRead(f *testing.F) {
	for _, body := range []string{
		`{"model":"m","max_tokens":1,"messages":[{"role":"user","content":"hi"}]}`,
		`{"model":"m","max_tokens":9,"stream":true,"system":[{"type":"text","text":"s"}],"messages":[{"role":"user","content":[{"type":"text","text":"a"},{"type":"image","source":{"type":"url","url":"u"}}]},{"role":"system","content":"s"}]}`,
		`{"model":"m","max_tokens":9,"messages":[{"role":"assistant","content":[{"type":"thinking","thinking":"t","signature":"pb1.g.x"},{"type":"tool_use","id":"toolu_pb1_eAB5","name":"f","input":{"a":1}}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"toolu_pb1_eAB5","is_error":true,"content":[{"type":"image","source":{"type":"base64","media_type":"image/png","data":"aGk="}}]}]}]}`,
		`{"model":"m","max_tokens":9,"messages":[{"role":"user","content":[{"type":"document","source":{"type":"content","content":[{"type":"text","text":"\ud83d"}]}},{"type":"search_result","content":[]}]}],"tools":[{"name":"f","input_schema":{}}],"tool_choice":{"type":"tool","name":"f","disable_parallel_tool_use":true},"thinking":{"type":"enabled","budget_tokens":1024},"output_config":{"effort":"low","format":{"type":"json_schema","schema":{}}},"stop_sequences":["a"],"metadata":{"user_id":"u"}}`,
	} {
		f.Add([]byte(body))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		original := bytes.Clone(body)
		req := new(schema.Request)
		err := ReadRequest(req, body)
		var text []byte
		if err == nil {
			text, err = unified(req)
		}
		if err != nil {
			var refusal *schema.Error
			if !errors.As(err, &refusal) || refusal.HTTPStatus() != 400 {
				t.Errorf("%q: %v", body, err)
			}
			return
		}
		if !jsontext.Value(text).IsValid(jsontext.AllowInvalidUTF8(true)) || !utf8.Valid(text) {
			t.Fatalf("%q became %q, which is no strict JSON", body, text)
		}
		if !bytes.Equal(body, original) {
			t.Fatalf("the client's body was changed: %q, was %q", body, original)
		}
	})
}

// Pieces of a block that are recognized by their likeness to an earlier one pass as those
// do that are scanned.
func TestPassedPiecesDoNotDependOnThoseBefore(t *testing.T) {
	delta := func(member, text string) string {
		return "event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"" + member + "_delta\",\"" + member + "\":\"" + text + "\"}}\n\n"
	}
	start := "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"id\":\"1\",\"model\":\"other\",\"usage\":{\"input_tokens\":1}}}\n\n" +
		"event: content_block_start\ndata: {\"type\":\"content_block_start\",\"index\":0,\"content_block\":{\"type\":\"text\",\"text\":\"\"}}\n\n" +
		delta("text", "first")
	const end = "event: message_delta\ndata: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"end_turn\"},\"usage\":{\"output_tokens\":2}}\n\nevent: message_stop\ndata: {\"type\":\"message_stop\"}\n\n"
	for _, piece := range []string{
		delta("text", "second"), delta("text", ""), delta("text", `a\"b\\`), delta("thinking", "hm"), delta("partial_json", `{\"a\":1`),
		delta("text", `x"}},"error":{"type":"overloaded_error","message":"y`), delta("text", `x"}}{"a":"`), delta("text", "broken \xff"), delta("text", `wrong \x escape`), delta("text", `open \`),
		"data: {\"type\":\"content_block_delta\",\"index\":0,\ndata: \"delta\":{\"type\":\"text_delta\",\"text\":\"two lines\"}}\n\n",
		"event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\",\"message\":\"first\"}}\n\n",
	} {
		read := func(anew bool) (out string, failure string) {
			events := Pass.Events(read(t, `{"model":"m","max_tokens":1,"stream":true,"messages":[{"role":"user","content":"hi"}]}`), strings.NewReader(start+piece+piece+end)).Events.(*passedEvents)
			for {
				if anew {
					events.pattern = dialect.TextPattern{}
				}
				frame, err := events.Next()
				if err != nil {
					return out, err.Error()
				}
				out += string(frame)
			}
		}
		recognized, failure := read(false)
		scanned, wantFailure := read(true)
		if recognized != scanned || failure != wantFailure {
			t.Errorf("%q:\n%q %s\n%q %s", piece, recognized, failure, scanned, wantFailure)
		}
	}
}

// An estimate stays one behind another gateway.
func TestEstimatesOfAnotherGatewayAreMarked(t *testing.T) {
	for answer, want := range map[string]string{
		`{"input_tokens":7}`:                  `{"input_tokens":7}`,
		`{"input_tokens":7,"estimated":true}`: `{"input_tokens":7,"estimated":true}`,
	} {
		reply := new(dialect.Reply)
		if err := CountTokens.Reply(nil, dialect.Answer{Body: []byte(answer)}, reply); err != nil || string(reply.Segments[0]) != want {
			t.Errorf("%s became %s, %v", answer, reply.Segments, err)
		}
	}
}

// TestTheEndOfARunIsAnErrorAboutMoney has the type for which Claude Code does not try again.
func TestTheEndOfARunIsAnErrorAboutMoney(t *testing.T) {
	for code, want := range map[string]string{"run_limit_reached": "billing_error", "run_loops": "billing_error",
		schema.CodeInvalidValue: "invalid_request_error"} {
		body := Error(&schema.Error{Code: code, Status: http.StatusBadRequest, Message: "m"}, "req")
		if !bytes.Contains(body, []byte(`"type":"`+want+`"`)) {
			t.Errorf("%s: %s", code, body)
		}
	}
}
