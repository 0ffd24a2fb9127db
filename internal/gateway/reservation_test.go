package gateway_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"

	"github.com/patchbay-ai/patchbay/internal/gateway/gatewaytest"
	"github.com/patchbay-ai/patchbay/internal/testing/simulator"
)

// text100 is a text of a hundred tokens, by the estimate.
var text100 = strings.Repeat("word ", 80)

// everyDoor is a configuration in which a backend serves the model m for every service
// type, and models of other names for chat in their own dialects, and as engines.
func everyDoor(b *simulator.Backend) string {
	services := gatewaytest.EveryService(b)
	for _, service := range []string{"embedding", "rerank"} {
		own := gatewaytest.Instance("m", b.URL())
		services = strings.Replace(services, gatewaytest.ServiceEntry(service, own),
			gatewaytest.ServiceEntry(service, own, gatewaytest.Instance("engine", b.URL(), "adapter: vllm")), 1)
	}
	return strings.Replace(services, gatewaytest.Instance("m", b.URL()), strings.Join([]string{
		gatewaytest.Instance("m", b.URL()),
		gatewaytest.Instance("messages", b.URL(), "adapter: anthropic"),
		gatewaytest.Instance("responses", b.URL(), "responses: true"),
		gatewaytest.Instance("ollama", b.URL(), "adapter: ollama"),
		gatewaytest.Instance("gemini", b.URL(), "adapter: gemini"),
		gatewaytest.Instance("infill", b.URL(), "adapter: llamacpp"),
	}, ", "), 1)
}

// Every door reserves the estimate of its prompt and the most that its answer may have.
func TestEveryDoorReservesWhatItsRequestMayUse(t *testing.T) {
	t.Parallel()
	const limit = 1_000_000_000
	const chat, completions, messages, responses = "/v1/chat/completions", "/v1/completions", "/v1/messages", "/v1/responses"
	const ollamaChat, ollamaGenerate = "/ollama/api/chat", "/ollama/api/generate"
	gemini := func(model string) string { return "/v1beta/models/" + model + ":generateContent" }
	user := `"messages":[{"role":"user","content":"` + text100 + `"}]`              // 104
	contents := `"contents":[{"role":"user","parts":[{"text":"` + text100 + `"}]}]` // as many
	form := func(parts ...gatewaytest.Part) string {
		body, contentType := gatewaytest.FormBody(append(parts, gatewaytest.Field("model", "m"))...)(t)
		return contentType + "\n" + body
	}
	rows := []struct {
		path, body string // with its content type before it if that is not JSON
		want       int
	}{
		{chat, `{"model":"m",` + user + `}`, 104 + 500},
		{chat, `{"model":"m","max_tokens":-1,` + user + `}`, 104 + 500},
		{chat, `{"model":"m","max_tokens":0,` + user + `}`, 104 + 500},
		{chat, `{"model":"m","max_tokens":70,` + user + `}`, 104 + 70},
		{chat, `{"model":"m","max_completion_tokens":1,"max_tokens":100000,` + user + `}`, 104 + 100000},
		{chat, `{"model":"m","max_tokens":70,"n":3,` + user + `}`, 104 + 3*70},
		{chat, `{"model":"m","extra_body":{"max_tokens":70,"n":3},` + user + `}`, 104 + 3*70},
		{messages, `{"model":"m","max_tokens":70,` + user + `}`, 104 + 70},
		{messages, `{"model":"m","max_tokens":100000,"system":"` + text100 + `",` + user + `}`, 204 + 100000},
		{messages, `{"model":"messages","max_tokens":70,` + user + `}`, 104 + 70},
		{messages, `{"model":"messages","max_tokens":0,` + user + `}`, 104},
		{messages, `{"model":"m","max_tokens":70,"stream":true,` + user + `}`, 104 + 70},
		{responses, `{"model":"m","input":"` + text100 + `"}`, 100 + 500},
		{responses, `{"model":"m","max_output_tokens":70,"input":"` + text100 + `","instructions":"` + text100 + `"}`, 200 + 70},
		{responses, `{"model":"m","max_output_tokens":70,"extra_body":{"n":2},"input":"` + text100 + `"}`, 100 + 2*70},
		{responses, `{"model":"responses","max_output_tokens":70,"input":"` + text100 + `"}`, 100 + 70},
		{responses, `{"model":"responses","stream":true,"input":"` + text100 + `"}`, 100 + 500},
		{completions, `{"model":"m","prompt":"` + text100 + `"}`, 100 + 500},
		{completions, `{"model":"m","max_tokens":0,"prompt":"` + text100 + `"}`, 100 + 500},
		{completions, `{"model":"m","max_tokens":70,"prompt":["` + text100 + `","` + text100 + `"]}`, 200 + 2*70},
		{completions, `{"model":"m","max_tokens":70,"n":2,"best_of":5,"prompt":["` + text100 + `","` + text100 + `"]}`, 200 + 2*5*70},
		{ollamaChat, `{"model":"m","options":{"num_predict":-1},` + user + `}`, 104 + 500},
		{ollamaChat, `{"model":"m","options":{"num_predict":0},` + user + `}`, 104 + 500},
		{ollamaChat, `{"model":"ollama","options":{"num_predict":-2},` + user + `}`, 104 + 500},
		{ollamaChat, `{"model":"ollama","options":{"num_predict":100000},` + user + `}`, 104 + 100000},
		{ollamaGenerate, `{"model":"m","prompt":"` + text100 + `","system":"` + text100 + `"}`, 200 + 500},
		{ollamaGenerate, `{"model":"m","raw":true,"options":{"num_predict":-1},"prompt":"` + text100 + `"}`, 100 + 500},
		{ollamaGenerate, `{"model":"m","raw":true,"options":{"num_predict":70},"prompt":"` + text100 + `"}`, 100 + 70},
		{gemini("m"), `{` + contents + `}`, 104 + 500},
		{gemini("m"), `{"generationConfig":{"maxOutputTokens":70,"candidateCount":3},` + contents + `}`, 104 + 3*70},
		{gemini("m"), `{"generation_config":{"max_output_tokens":100000},` + contents + `}`, 104 + 100000},
		{gemini("gemini"), `{"generationConfig":{"maxOutputTokens":0},"systemInstruction":{"parts":[{"text":"` + text100 + `"}]},` + contents + `}`, 204 + 500},
		{"/infill", `{"model":"infill","n_predict":-1,"input_prefix":"` + text100 + `","input_suffix":"` + text100 + `"}`, 200 + 500},
		{"/infill", `{"model":"infill","n_predict":70,"input_prefix":"` + text100 + `","input_suffix":""}`, 100 + 70},
		{"/v1/score", `{"model":"engine","text_1":"` + text100 + `","text_2":["` + text100 + `","` + text100 + `"]}`, 400},
		{"/v1/responses/compact", `{"model":"m","input":"` + text100 + `"}`, 100 + 500},
		{"/v1/moderations", `{"model":"m","input":"` + text100 + `"}`, 100},
		{"/v1/embeddings", `{"model":"m","input":["` + text100 + `","` + text100 + `"]}`, 200},
		{"/v1/rerank", `{"model":"m","query":"` + text100 + `","documents":["` + text100 + `","` + text100 + `"]}`, 400},
		{"/v1/audio/speech", `{"model":"m","voice":"v","input":"` + text100 + `"}`, 100 + 500},
		{"/v1/images/generations", `{"model":"m","n":2,"prompt":"` + text100 + `"}`, 100 + 2*500},
		{"/v1/images/edits", form(gatewaytest.Field("prompt", text100), gatewaytest.Field("n", "2"), gatewaytest.Photo(t, "image")), 100 + 2*500},
		{"/v1/audio/transcriptions", form(gatewaytest.Recording()), 500},
		{"/v1/audio/translations", form(gatewaytest.Field("prompt", text100), gatewaytest.Recording()), 100 + 500},
	}
	keys := map[string]string{}
	for i := range rows {
		keys[fmt.Sprint("k", i)] = fmt.Sprintf(", limits: {tokens-per-minute: %d}", limit)
	}
	b := gatewaytest.StartBackend(t)
	r := gatewaytest.StartWith(t, gatewaytest.Setup{YAML: keyed(everyDoor(b), "", keys), AnswerTokens: 500})
	for i, row := range rows {
		body, contentType := row.body, "application/json"
		if !strings.HasPrefix(body, "{") {
			contentType, body, _ = strings.Cut(body, "\n")
		}
		reply := r.Do(http.MethodPost, row.path, body, append(bearer(fmt.Sprint("k", i)), "Content-Type", contentType)...)
		// What remains is told while the reservation counts.
		if got := limit - header(t, reply, "X-Ratelimit-Remaining-Tokens"); got != row.want {
			t.Errorf("%s %.150s reserves %d tokens, want %d: %d %.200s", row.path, body, got, row.want, reply.Status, reply.Body)
		}
	}
}

// A request that continues a response, or refers to its items, reserves what it says of
// itself and what is added to it.
func TestWhatIsRecalledIsReserved(t *testing.T) {
	t.Parallel()
	gatewaytest.Needs(t, "answers")
	b := gatewaytest.StartBackend(t)
	b.ScriptForever(simulator.Step{Text: text100})
	r := gatewaytest.Start(t, keyed(everyDoor(b), "", map[string]string{"k": ", limits: {tokens-per-minute: 1000000000}"}))
	left := 1_000_000_000
	ask := func(members string) (id, item string, reserved int) {
		t.Helper()
		reply := r.Do(http.MethodPost, "/v1/responses", `{"model":"m","max_output_tokens":1000,`+members+`}`, bearer("k")...).Succeeds(t)
		object := gatewaytest.DecodeObject(t, reply.Body)
		remaining := header(t, reply, "X-Ratelimit-Remaining-Tokens")
		reserved = left - remaining
		left = remaining + reserved - int(gatewaytest.At(t, object, "usage/total_tokens").(float64))
		return object["id"].(string), gatewaytest.At(t, object, "output/0/id").(string), reserved
	}
	first, item, reserved := ask(`"input":"` + text100 + `"`)
	if reserved != 1100 {
		t.Errorf("the first request reserves %d tokens", reserved)
	}
	second, _, reserved := ask(`"input":"` + text100 + `","previous_response_id":"` + first + `"`)
	if reserved < 1300 || reserved > 1340 { // the frames of items count a little
		t.Errorf("the second request reserves %d tokens, and the conversation before it has 200", reserved)
	}
	if _, _, reserved = ask(`"input":"` + text100 + `","previous_response_id":"` + second + `"`); reserved < 1500 || reserved > 1580 {
		t.Errorf("the third request reserves %d tokens, and the conversation before it has 400", reserved)
	}
	if _, _, reserved = ask(`"input":[{"role":"user","content":"` + text100 + `"},{"type":"item_reference","id":"` + item + `"}]`); reserved < 1200 || reserved > 1240 {
		t.Errorf("a request that refers to an item of 100 tokens reserves %d", reserved)
	}
}

// usedOf returns how much is used of a budget of an account, of a cost in millionths. The
// gateway has the token of SecuredYAML.
func usedOf(t *testing.T, r *gatewaytest.Gateway, account, unit string) int64 {
	t.Helper()
	var shown struct {
		Budgets []struct {
			Of   string `json:"of"`
			Unit string `json:"unit"`
			Used int64  `json:"used"`
		} `json:"budgets"`
	}
	if err := json.Unmarshal([]byte(r.Do(http.MethodGet, "/api/monitoring/budgets", "", bearer("admin-token")...).Succeeds(t).Body), &shown); err != nil {
		t.Fatal(err)
	}
	for _, b := range shown.Budgets {
		if b.Of == account && b.Unit == unit {
			return b.Used
		}
	}
	t.Fatalf("%s has no budget of %s", account, unit)
	return 0
}

// budgeted returns a configuration with the token of an administrator and with keys whose
// texts are their ids, each with these members.
func budgeted(yaml string, keys map[string]string) string {
	return keyed(yaml, "  tokens: [{name: a, role: ADMIN, token-sha256: "+gatewaytest.HashOf("admin-token")+"}]\n", keys)
}

// An answer without a report costs the estimate of the prompt and of what was sent, at every
// door, streamed or not, and also when the client does not wait for its end. The ledger
// counts what was reported.
func TestWhatIsSpentWithoutAReport(t *testing.T) {
	t.Parallel()
	user := `"messages":[{"role":"user","content":"` + text100 + `"}]`
	contents := `"contents":[{"role":"user","parts":[{"text":"` + text100 + `"}]}]`
	// Of a stream that is cut, these backends have reported the prompt, or also what they had said.
	reported := map[string]int64{"messages, passed on": 110, "gemini, passed on": 160}
	for name, door := range map[string]struct {
		path, model, members string
		prompt               int64
		streams              bool
	}{
		"ollama chat":            {"/ollama/api/chat", "m", user, 104, true},
		"ollama chat, passed on": {"/ollama/api/chat", "ollama", user, 104, true},
		"ollama generate":        {"/ollama/api/generate", "m", `"prompt":"` + text100 + `"`, 100, true},
		"gemini":                 {"/v1beta/models/m:generateContent", "m", contents, 104, true},
		"gemini, passed on":      {"/v1beta/models/gemini:generateContent", "gemini", contents, 104, true},
		"chat":                   {"/v1/chat/completions", "m", user, 104, true},
		"messages":               {"/v1/messages", "m", `"max_tokens":900,` + user, 104, true},
		"messages, passed on":    {"/v1/messages", "messages", `"max_tokens":900,` + user, 104, true},
		"responses":              {"/v1/responses", "m", `"input":"` + text100 + `"`, 100, true},
		"responses, passed on":   {"/v1/responses", "responses", `"input":"` + text100 + `"`, 100, true},
		"completions":            {"/v1/completions", "m", `"prompt":"` + text100 + `"`, 100, true},
		"completions that echo":  {"/v1/completions", "m", `"echo":true,"prompt":"` + text100 + `"`, 100, false},
		"embeddings":             {"/v1/embeddings", "m", `"input":"` + text100 + `"`, 100, false},
		"rerank":                 {"/v1/rerank", "m", `"query":"` + text100 + `","documents":["` + text100 + `"],"return_documents":true`, 200, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			const account = "budgets: {total: {tokens: 1000000, cost: 1000000}}"
			b := gatewaytest.StartBackend(t)
			r := gatewaytest.Start(t, budgeted(everyDoor(b)+gatewaytest.QuotaOn+"prices: {models: [{model: '*', input: 1000000, output: 1000000}]}\n", map[string]string{
				"whole": ", " + account, "stream": ", " + account, "left": ", " + account, "cut": ", " + account,
			}))
			r.BackendsLie = true // usage is required of them
			body := func(streamed bool) string {
				return fmt.Sprintf(`{"model":%q,"stream":%t,%s}`, door.model, streamed, door.members)
			}
			streamPath := strings.Replace(door.path, ":generateContent", ":streamGenerateContent?alt=sse", 1)
			// spends checks what a key has spent when its request is settled: by the price
			// every token costs one unit.
			spends := func(key string, least, most int64) {
				t.Helper()
				var tokens, cost int64
				gatewaytest.Eventually(t, fmt.Sprintf("%s spends from %d to %d", key, least, most), func() bool {
					tokens, cost = usedOf(t, r, "key/"+key, "tokens"), usedOf(t, r, "key/"+key, "cost")
					return tokens >= least && tokens <= most && cost == tokens*1_000_000
				})
			}
			answer := int64(0)
			if door.streams || strings.HasPrefix(name, "completions") {
				answer = 100
			}
			b.Script(simulator.Step{Text: text100, Usage: simulator.UsageNone})
			r.Do(http.MethodPost, door.path, body(false), bearer("whole")...).Succeeds(t)
			spends("whole", door.prompt+answer, door.prompt+answer+2)
			b.Script(simulator.Step{Hang: true})
			leaveWhen(t, r, door.path, body(false), "left", func(*http.Response) {}, func() bool { return len(b.Requests()) == 2 })
			spends("left", door.prompt, door.prompt)
			if door.streams {
				b.Script(simulator.Step{Text: text100, Usage: simulator.UsageNone})
				r.Do(http.MethodPost, streamPath, body(true), bearer("stream")...).Succeeds(t)
				spends("stream", door.prompt+80, door.prompt+120) // a token for each event
				// A backend that reports the prompt at the beginning tells nothing of the answer.
				b.Script(simulator.Step{Text: text100, Stop: simulator.StopStall, After: 45})
				leaveWhen(t, r, streamPath, body(true), "cut", func(response *http.Response) {
					seen := 0
					for buf := make([]byte, 4096); seen < 30; {
						n, err := response.Body.Read(buf)
						if err != nil {
							t.Error(err)
							return
						}
						seen += strings.Count(string(buf[:n]), "word")
					}
				}, nil)
				spends("cut", door.prompt-20+30, door.prompt+60) // of 45 words of five letters, 30 or more
			}
			if _, tokens := gatewaytest.Counted(t, func() gatewaytest.Reply {
				return r.Do(http.MethodGet, gatewaytest.LongAgo, "", bearer("admin-token")...)
			}); tokens > reported[name] {
				t.Errorf("the ledger counts %d tokens that nobody reported", tokens)
			}
		})
	}
}

// leaveWhen sends a request and leaves when a condition holds, or after read has read what
// it wants of the reply.
func leaveWhen(t *testing.T, r *gatewaytest.Gateway, path, body, key string, read func(*http.Response), when func() bool) {
	t.Helper()
	ctx, leave := context.WithCancel(gatewaytest.Deadline(t))
	defer leave()
	ended := make(chan error, 1)
	request := r.Request(ctx, http.MethodPost, path, body, bearer(key)...)
	go func() {
		response, err := r.Client.Do(request)
		if err == nil {
			read(response)
			leave()
			_, _ = io.Copy(io.Discard, response.Body)
			_ = response.Body.Close()
		}
		ended <- err
	}()
	if when != nil {
		gatewaytest.Eventually(t, "the backend has the request", when)
		leave()
	}
	<-ended
}
