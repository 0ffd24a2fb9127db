package rerank

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/patchbay-ai/patchbay/internal/dialect"
	"github.com/patchbay-ai/patchbay/internal/dialect/wire"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
)

// The transcripts of whole exchanges with each kind are in
// internal/dialect/kinds/testdata/golden.

func requestOf(t *testing.T, body string) *schema.Request {
	t.Helper()
	req := new(schema.Request)
	if err := req.ParseRerank([]byte(body)); err != nil {
		t.Fatal(err)
	}
	return req
}

func TestRequestsAreWritten(t *testing.T) {
	const mixed = `{"model":"m","query":"q","documents":[{"text":"a","id":1},"b\u00e9",{"title":"c"}],"top_n":2,"x":1.50}`
	textsOnly := dialect.Quirks{TextDocuments: true}
	for name, row := range map[string]struct {
		speak      *dialect.Adapter
		quirks     dialect.Quirks
		body, want string
	}{
		"the caller's body": {Rerank, dialect.Quirks{}, mixed, mixed},
		"objects as texts, for backends that take no others": {
			Rerank, textsOnly, mixed,
			`{"model":"m","query":"q","documents":["a","b\u00e9","{\"title\":\"c\"}"],"top_n":2,"x":1.50}`,
		},
		"texts of objects, for backends that read others as images": {
			Rerank, dialect.Quirks{UnwrapDocuments: true}, mixed,
			`{"model":"m","query":"q","documents":["a","b\u00e9",{"title":"c"}],"top_n":2,"x":1.50}`,
		},
		"texts stay as they are": {
			Rerank, textsOnly, `{"model":"m","query":"q","documents":[ "a" , "b" ]}`, `{"model":"m","query":"q","documents":[ "a" , "b" ]}`,
		},
		"documents of extra_body": {
			Rerank, textsOnly, `{"model":"m","query":"q","extra_body":{"documents":[{"text":"a"},"b"]}}`, `{"model":"m","query":"q","documents":["a","b"]}`,
		},
		"a body of its own for Text Embeddings Inference": {TEI, dialect.Quirks{}, mixed, `{"query":"q","texts":["a","b\u00e9","{\"title\":\"c\"}"]}`},
		"the options that it knows": {
			TEI, dialect.Quirks{}, `{"model":"m","query":"q","documents":["a"],"truncate":true,"raw_scores":false,"truncation_direction":"Left","user":"u"}`,
			`{"query":"q","texts":["a"],"truncate":true,"raw_scores":false,"truncation_direction":"Left"}`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			target := &dialect.Target{Path: "/somewhere", Quirks: row.quirks}
			call := new(wire.Call)
			if err := row.speak.Call(requestOf(t, row.body), target, call); err != nil {
				t.Fatal(err)
			}
			if got := string(bytes.Join(call.Body, nil)); got != row.want || call.Path != "/somewhere" || call.Method != "POST" {
				t.Errorf("%s %s %s", call.Method, call.Path, got)
			}
		})
	}
}

// The memory for another body is reserved before it is written.
func TestNoMemoryForAnotherBody(t *testing.T) {
	short := errors.New("too little memory")
	for name, speak := range map[string]*dialect.Adapter{"texts of objects": Rerank, "a body of its own": TEI} {
		req := requestOf(t, `{"model":"m","query":"q","documents":[{"text":"a"}]}`)
		req.Body.Reserve = func(int) error { return short }
		err := speak.Call(req, &dialect.Target{Path: "/", Quirks: dialect.Quirks{TextDocuments: true}}, new(wire.Call))
		if !errors.Is(err, short) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestAnswersAreRead(t *testing.T) {
	const three = `{"model":"callers","query":"q","documents":["a",{"text":"b","id":7},{"title":"c"}]`
	for name, row := range map[string]struct {
		speak         *dialect.Adapter
		request       string
		answer, reply string
		tokens        int64
	}{
		"the best is first, and equals keep their order": {
			Rerank, three + `}`,
			`{"id":"x","results":[{"index":0,"relevance_score":0.5},{"index":1,"relevance_score":0.5},{"index":2,"relevance_score":0.75}]}`,
			`{"id":"x","model":"callers","results":[{"index":2,"score":0.75,"relevance_score":0.75},{"index":0,"score":0.5,"relevance_score":0.5},{"index":1,"score":0.5,"relevance_score":0.5}],"usage":{"total_tokens":0}}`, 0,
		},
		"no more than were asked for": {
			Rerank, three + `,"top_n":1}`,
			`{"id":"x","results":[{"index":0,"relevance_score":-1},{"index":1,"relevance_score":1e0}]}`,
			`{"id":"x","model":"callers","results":[{"index":1,"score":1e0,"relevance_score":1e0}],"usage":{"total_tokens":0}}`, 0,
		},
		"the caller's documents, whatever the backend sends along": {
			Rerank, three + `,"return_documents":true}`,
			`{"id":"x","results":[{"index":1,"relevance_score":0.9,"document":{"text":"other"}},{"index":2,"relevance_score":0.1}]}`,
			`{"id":"x","model":"callers","results":[{"index":1,"score":0.9,"relevance_score":0.9,"document":{"text":"b"}},{"index":2,"score":0.1,"relevance_score":0.1,"document":{"text":"{\"title\":\"c\"}"}}],"usage":{"total_tokens":0}}`, 0,
		},
		"no documents that nobody asked for": {
			Rerank, three + `}`, `{"id":"x","results":[{"index":1,"relevance_score":0.9,"document":{"text":"b"}}]}`,
			`{"id":"x","model":"callers","results":[{"index":1,"score":0.9,"relevance_score":0.9}],"usage":{"total_tokens":0}}`, 0,
		},
		"results under another name": {
			Rerank, three + `}`, `{"id":"x","results":null,"data":[{"index":1,"score":0.25}]}`,
			`{"id":"x","model":"callers","results":[{"index":1,"score":0.25,"relevance_score":0.25}],"usage":{"total_tokens":0}}`, 0,
		},
		"what the backend says besides, as it came": {
			Rerank, three + `}`, `{"id":"x","object":"list","model":"backends","took":1.50,"results":[{"index":1,"relevance_score":0.10,"why":[1]}],"usage":{"prompt_tokens":3,"total_tokens":3}}`,
			`{"id":"x","model":"callers","object":"list","took":1.50,"results":[{"index":1,"score":0.10,"relevance_score":0.10,"why":[1]}],"usage":{"total_tokens":3,"prompt_tokens":3}}`, 3,
		},
		"tokens in the other place": {
			Rerank, three + `}`, `{"id":"x","results":[],"meta":{"tokens":{"input_tokens":5,"output_tokens":1}}}`,
			`{"id":"x","model":"callers","meta":{"tokens":{"input_tokens":5,"output_tokens":1}},"results":[],"usage":{"total_tokens":6}}`, 6,
		},
		"a bare list of scores": {
			TEI, three + `,"return_documents":true,"top_n":2}`, `[{"index":0,"score":0.1,"text":"a"},{"index":2,"score":0.3},{"index":1,"score":0.2}]`,
			`{"id":"ANY","model":"callers","results":[{"index":2,"score":0.3,"relevance_score":0.3,"document":{"text":"{\"title\":\"c\"}"}},{"index":1,"score":0.2,"relevance_score":0.2,"document":{"text":"b"}}],"usage":{"total_tokens":0}}`, 0,
		},
	} {
		t.Run(name, func(t *testing.T) {
			var reply dialect.Reply
			if err := row.speak.Reply(requestOf(t, row.request), dialect.Answer{Body: []byte(row.answer)}, &reply); err != nil {
				t.Fatal(err)
			}
			got := string(bytes.Join(reply.Segments, nil))
			if before, id, made := strings.Cut(got, `{"id":"rerank-`); made && before == "" {
				_, rest, _ := strings.Cut(id, `"`)
				got = `{"id":"ANY"` + rest
			}
			if got != row.reply || reply.Usage.Total != row.tokens {
				t.Errorf("%d tokens, %s", reply.Usage.Total, got)
			}
		})
	}
}

func TestAnswersThatAreNone(t *testing.T) {
	bare := func(results string) string { return results }
	named := func(results string) string { return `{"results":` + results + `}` }
	for dialectName, speaker := range map[string]struct {
		speak *dialect.Adapter
		wrap  func(results string) string
	}{"Rerank": {Rerank, named}, "TEI": {TEI, bare}} {
		for name, answer := range map[string]string{
			"no JSON":                 `<html>`,
			"cut off":                 speaker.wrap(`[{"index":0,"score":1}`)[:10],
			"no list":                 speaker.wrap(`{"0":1}`),
			"null":                    speaker.wrap(`null`),
			"an index too high":       speaker.wrap(`[{"index":2,"score":1}]`),
			"an index below 0":        speaker.wrap(`[{"index":-1,"score":1}]`),
			"an index with fractions": speaker.wrap(`[{"index":0.5,"score":1}]`),
			"no index":                speaker.wrap(`[{"score":1}]`),
			"a document twice":        speaker.wrap(`[{"index":1,"score":1},{"index":1,"score":2}]`),
			"no score":                speaker.wrap(`[{"index":0}]`),
			"a score in words":        speaker.wrap(`[{"index":0,"score":"high"}]`),
			"a number":                speaker.wrap(`[1]`),
		} {
			var reply dialect.Reply
			err := speaker.speak.Reply(requestOf(t, `{"model":"m","query":"q","documents":["a","b"]}`), dialect.Answer{Body: []byte(answer)}, &reply)
			if !errors.Is(err, dialect.ErrInvalid) || len(reply.Segments) != 0 {
				t.Errorf("%s, %s: %v with %d segments", dialectName, name, err, len(reply.Segments))
			}
		}
		var failure *dialect.Failure
		err := speaker.speak.Reply(requestOf(t, `{"model":"m","query":"q","documents":["a"]}`), dialect.Answer{Body: []byte(`{"error":"overloaded"}`)}, new(dialect.Reply))
		if !errors.As(err, &failure) || failure.Message != "overloaded" {
			t.Errorf("%s: %v", dialectName, err)
		}
	}
}
