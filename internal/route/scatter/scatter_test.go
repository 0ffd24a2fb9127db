package scatter

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/patchbay-ai/patchbay/internal/dialect"
	"github.com/patchbay-ai/patchbay/internal/plain/say"
	"github.com/patchbay-ai/patchbay/internal/request/jsonscan"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
)

// parsed returns the request of a body at a door.
func parsed(t *testing.T, door schema.Door, body string) *schema.Request {
	t.Helper()
	req := new(schema.Request)
	if err := parse(req, door, []byte(body)); err != nil {
		t.Fatal(err)
	}
	return req
}

// small splits everything that has two inputs.
var small = Settings{MaxSplit: 64, MinInputs: 1, MinTokens: 1}

// inputs returns a list of so many texts.
func inputs(count int, text string) string {
	return "[" + strings.TrimSuffix(strings.Repeat(fmt.Sprintf("%q,", text), count), ",") + "]"
}

func TestOnlyListsOfEnoughInputsAreSplit(t *testing.T) {
	usual := Settings{MaxSplit: 4}
	many := inputs(64, strings.Repeat("word ", 12))
	for name, row := range map[string]struct {
		door  schema.Door
		body  string
		split bool
	}{
		"many texts":                          {schema.DoorEmbeddings, `{"model":"m","input":` + many + `}`, true},
		"one text":                            {schema.DoorEmbeddings, `{"model":"m","input":"` + strings.Repeat("word ", 4000) + `"}`, false},
		"the ids of one text":                 {schema.DoorEmbeddings, `{"model":"m","input":[` + strings.Repeat("1,", 4000) + `1]}`, false},
		"the ids of many":                     {schema.DoorEmbeddings, `{"model":"m","input":[` + strings.Repeat("[1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20],", 63) + `[1]]}`, true},
		"few texts":                           {schema.DoorEmbeddings, `{"model":"m","input":` + inputs(31, strings.Repeat("word ", 100)) + `}`, false},
		"little work":                         {schema.DoorEmbeddings, `{"model":"m","input":` + inputs(32, "word") + `}`, false},
		"in extra_body":                       {schema.DoorEmbeddings, `{"model":"m","extra_body":{"input":` + many + `}}`, false},
		"documents":                           {schema.DoorRerank, `{"model":"m","query":"q","documents":` + many + `}`, true},
		"a long query":                        {schema.DoorRerank, `{"model":"m","query":"` + strings.Repeat("q ", 100) + `","documents":` + inputs(32, "d") + `}`, true},
		"top_n in extra_body":                 {schema.DoorRerank, `{"model":"m","query":"q","documents":` + many + `,"extra_body":{"top_n":3}}`, false},
		"prompts":                             {schema.DoorCompletions, `{"model":"m","prompt":` + many + `}`, true},
		"prompts that are answered at length": {schema.DoorCompletions, `{"model":"m","max_tokens":100,"prompt":` + inputs(32, "p") + `}`, true},
		"a stream":                            {schema.DoorCompletions, `{"model":"m","stream":true,"prompt":` + many + `}`, false},
	} {
		if got := Read(parsed(t, row.door, row.body), usual) != nil; got != row.split {
			t.Errorf("%s: split %v", name, got)
		}
	}
}

// Whatever the places and the inputs are, the pieces are all inputs, in order, and none is
// smaller than the least.
func TestPiecesAreTheWhole(t *testing.T) {
	lengths := []int{3, 500, 7, 7, 7, 90, 1, 1, 1, 1200, 4, 40, 40, 2, 2, 2, 2, 800, 3, 3}
	texts := make([]string, len(lengths))
	for n, length := range lengths {
		texts[n] = fmt.Sprintf("%q", strings.Repeat("x", length))
	}
	req := parsed(t, schema.DoorEmbeddings, `{"model":"m","input":[`+strings.Join(texts, " , ")+`]}`)
	for _, settings := range []Settings{small, {MaxSplit: 2, MinInputs: 1, MinTokens: 1}, {MaxSplit: 8, MinInputs: 4, MinTokens: 1}, {MaxSplit: 8, MinInputs: 1, MinTokens: 200}, {MaxSplit: 8, MinInputs: 9, MinTokens: 1}} {
		work := Read(req, settings)
		if work == nil {
			t.Fatalf("%+v: not split", settings)
		}
		for count := 2; count <= 12; count++ {
			places := make([]Place, count)
			for n := range places {
				places[n] = Place{Wait: float64(n%3) / 10, PerToken: 0.001 * float64(1+n%4)}
			}
			pieces := work.Cut(places, settings)
			at := 0
			seen := map[int]bool{}
			for _, p := range pieces {
				if p.From != at || p.To-p.From < settings.leastInputs() || work.Between(p) < settings.leastTokens() || seen[p.Place] {
					t.Errorf("%+v, %d places: piece %+v of %v", settings, count, p, pieces)
				}
				at, seen[p.Place] = p.To, true
			}
			if len(pieces) == 1 || len(pieces) > settings.MaxSplit || len(pieces) > 0 && at != len(texts) {
				t.Errorf("%+v, %d places: %v", settings, count, pieces)
			}
		}
	}
}

// Work is divided so that all end at the same time.
func TestPlacesEndTogether(t *testing.T) {
	const count = 1000
	req := parsed(t, schema.DoorEmbeddings, `{"model":"m","input":`+inputs(count, strings.Repeat("x", 22))+`}`) // 10 tokens each
	for name, row := range map[string]struct {
		places []Place
		want   []int
	}{
		"equal":                {[]Place{{0, 1}, {0, 1}, {0, 1}, {0, 1}}, []int{250, 250, 250, 250}},
		"one is twice as fast": {[]Place{{0, 1}, {0, 0.5}}, []int{333, 667}},
		"one is busy":          {[]Place{{0, 0.001}, {5, 0.001}}, []int{750, 250}},
		"one is too busy":      {[]Place{{0, 0.001}, {50, 0.001}, {0, 0.001}}, []int{500, 0, 500}},
	} {
		work := Read(req, small)
		got := make([]int, len(row.places))
		for _, p := range work.Cut(row.places, small) {
			got[p.Place] = p.To - p.From
		}
		if diff := cmp.Diff(row.want, got); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
	if got := Read(req, small).Cut([]Place{{0, 0.001}, {math.MaxFloat32, 0.001}}, small); got != nil {
		t.Errorf("one of two is too busy: %v", got)
	}
}

// A piece is the request with some of its inputs, byte for byte.
func TestPiecesKeepWhatTheClientWrote(t *testing.T) {
	for _, row := range []struct {
		door       schema.Door
		body, want string
	}{
		{schema.DoorEmbeddings, `{ "user":"u", "input" : [ "a\u0020" , "b","c" ,"d" ] , "model":"m","vendor":{"x":[1, 2]} }`, `{ "user":"u", "input" : ["b","c"] , "model":"m","vendor":{"x":[1, 2]} }`},
		{schema.DoorRerank, `{"model":"m","top_n":3,"documents":["a",{"text":"b"},"c","d"],"query":"q"}`, `{"model":"m","top_n":2,"documents":[{"text":"b"},"c"],"query":"q"}`},
		{schema.DoorRerank, `{"model":"m","documents":["a","b","c","d"],"query":"q","top_n":1}`, `{"model":"m","documents":["b","c"],"query":"q","top_n":1}`},
		{schema.DoorCompletions, `{"prompt":[[1,2],[3],[4,5],[6]],"model":"m","n":2}`, `{"prompt":[[3],[4,5]],"model":"m","n":2}`},
	} {
		work := Read(parsed(t, row.door, row.body), small)
		if work == nil {
			t.Fatalf("%s is not split", row.body)
		}
		reserved := 0
		req, err := work.Request(Piece{From: 1, To: 3}, func(bytes int) error { reserved += bytes; return nil })
		if err != nil {
			t.Fatal(err)
		}
		if got := string(req.Body.Data()); got != row.want || req.Door != row.door || reserved < len(got) {
			t.Errorf("%s, of which %d bytes were reserved", got, reserved)
		}
	}
}

// joined joins answers to pieces of so many inputs each.
func joined(t *testing.T, req *schema.Request, each int, answers ...string) (string, schema.Usage) {
	t.Helper()
	var parts []*Part
	for n, text := range answers {
		answer := &dialect.Reply{Segments: [][]byte{[]byte(text[:len(text)/2]), []byte(text[len(text)/2:])}}
		answer.Usage = schema.ReadUsage(usageIn(t, text))
		part, err := ReadPart(req.Door, Piece{From: n * each, To: (n + 1) * each}, answer)
		if err != nil {
			t.Fatal(err)
		}
		parts = append(parts, part)
	}
	var reply dialect.Reply
	Join(req, parts, &reply)
	return string(slices.Concat(reply.Segments...)), reply.Usage
}

func TestAnswersBecomeOne(t *testing.T) {
	for name, row := range map[string]struct {
		door    schema.Door
		request string
		answers []string
		want    string
		total   int64
	}{
		"vectors, as they came": {
			schema.DoorEmbeddings, `{"model":"m","input":["a","b","c","d"]}`,
			[]string{
				`{"object":"list","data":[{"object":"embedding","index":0,"embedding":[1.50,-2e-3]}, {"index": 1,"embedding":"AAAA"}],"model":"m","usage":{"prompt_tokens":3,"total_tokens":3}}`,
				`{"usage":{"total_tokens":4,"prompt_tokens":4},"data":[{"index":0,"embedding":[3]},{"embedding":[4],"index":1}],"other":1}`,
			},
			`{"object":"list","data":[{"object":"embedding","index":0,"embedding":[1.50,-2e-3]}, {"index": 1,"embedding":"AAAA"},{"index":2,"embedding":[3]},{"embedding":[4],"index":3}],"model":"m","usage":{"prompt_tokens":7,"total_tokens":7}}`,
			7,
		},
		"a usage before the vectors, with details": {
			schema.DoorEmbeddings, `{"model":"m","input":["a","b"]}`,
			[]string{
				`{"usage":{"prompt_tokens":3,"total_tokens":3,"prompt_tokens_details":{"cached_tokens":1,"note":"x"},"cost":0.5},"data":[{"index":0,"embedding":[1]}],"model":"m"}`,
				`{"usage":{"prompt_tokens":4,"total_tokens":4,"prompt_tokens_details":{"cached_tokens":2},"cost":0.25},"data":[{"index":0,"embedding":[2]}],"model":"m"}`,
			},
			`{"usage":{"prompt_tokens":7,"total_tokens":7,"prompt_tokens_details":{"cached_tokens":3,"note":"x"},"cost":0.75},"data":[{"index":0,"embedding":[1]},{"index":1,"embedding":[2]}],"model":"m"}`,
			7,
		},
		"one that does not tell its usage": {
			schema.DoorEmbeddings, `{"model":"m","input":["a","b"]}`,
			[]string{
				`{"data":[{"index":0,"embedding":[1]}],"usage":{"prompt_tokens":3,"total_tokens":3}}`,
				`{"data":[{"index":0,"embedding":[2]}],"usage":{}}`,
			},
			`{"data":[{"index":0,"embedding":[1]},{"index":1,"embedding":[2]}],"usage":{}}`,
			0,
		},
		"rankings, the best of all": {
			schema.DoorRerank, `{"model":"m","query":"q","documents":["a","b","c","d"],"top_n":3}`,
			[]string{
				`{"id":"r","model":"m","meta":{"billed_units":{"search_units":1},"api_version":{"version":"2"}},"results":[{"index":1,"score":0.5,"relevance_score":0.5,"document":{"text":"b"}},{"index":0,"score":0.1,"relevance_score":0.1}],"usage":{"total_tokens":5}}`,
				`{"id":"s","model":"m","meta":{"billed_units":{"search_units":1},"api_version":{"version":"2"}},"results":[{"index":0,"score":0.9,"relevance_score":0.9},{"index":1,"score":5e-1,"relevance_score":5e-1}],"usage":{"total_tokens":6}}`,
			},
			`{"id":"r","model":"m","meta":{"billed_units":{"search_units":2},"api_version":{"version":"2"}},"results":[{"index":2,"score":0.9,"relevance_score":0.9},{"index":1,"score":0.5,"relevance_score":0.5,"document":{"text":"b"}},{"index":3,"score":5e-1,"relevance_score":5e-1}],"usage":{"total_tokens":11}}`,
			11,
		},
		"completions of several choices": {
			schema.DoorCompletions, `{"model":"m","prompt":["a","b"],"n":2}`,
			[]string{
				`{"id":"c","object":"text_completion","created":1,"model":"m","choices":[{"text":"A","index":0},{"text":"A'","index":1}],"usage":{"prompt_tokens":1,"completion_tokens":2,"total_tokens":3}}`,
				`{"id":"d","object":"text_completion","created":2,"model":"m","choices":[{"text":"B","index":0},{"text":"B'","index":1}],"usage":{"prompt_tokens":1,"completion_tokens":4,"total_tokens":5}}`,
			},
			`{"id":"c","object":"text_completion","created":1,"model":"m","choices":[{"text":"A","index":0},{"text":"A'","index":1},{"text":"B","index":2},{"text":"B'","index":3}],"usage":{"prompt_tokens":2,"completion_tokens":6,"total_tokens":8}}`,
			8,
		},
	} {
		t.Run(name, func(t *testing.T) {
			req := parsed(t, row.door, row.request)
			each := len(Read(req, small).ends) / len(row.answers)
			got, usage := joined(t, req, each, row.answers...)
			if diff := cmp.Diff(row.want, got); diff != "" || usage.Total != row.total || usage.Known != (row.total > 0) {
				t.Errorf("usage %+v, answer %s", usage, diff)
			}
		})
	}
}

func TestSettingsThatCannotBe(t *testing.T) {
	for _, row := range []struct {
		service  schema.ServiceType
		settings Settings
		want     string
	}{
		{schema.Embedding, Settings{MaxSplit: 4, MinInputs: 1, MinTokens: 1}, ""},
		{schema.TTS, Settings{}, ""},
		{schema.TTS, Settings{MaxSplit: 2}, "maxSplit"},
		{schema.Embedding, Settings{MaxSplit: 65}, "maxSplit"},
		{schema.Embedding, Settings{MaxSplit: -1}, "maxSplit"},
		{schema.Rerank, Settings{MinInputs: -1, MinTokens: -1}, "minInputs minTokens"},
	} {
		var got []string
		row.settings.Check(row.service, func(path string, _ say.Sentence) { got = append(got, path) })
		if strings.Join(got, " ") != row.want {
			t.Errorf("%+v: %q, want %q", row.settings, got, row.want)
		}
	}
}

// usageIn returns the usage of an answer.
func usageIn(t *testing.T, text string) jsonscan.Value {
	t.Helper()
	doc := new(jsonscan.Document)
	if err := doc.Parse([]byte(text)); err != nil {
		t.Fatal(err)
	}
	return doc.Root().Get("usage")
}
