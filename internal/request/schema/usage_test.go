package schema_test

import (
	"encoding/json"
	"math/big"
	"testing"

	"github.com/patchbay-ai/patchbay/internal/request/jsonscan"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
)

func usageOf(t *testing.T, text string) schema.Usage {
	t.Helper()
	var doc jsonscan.Document
	doc.AllowDuplicateKeys = true
	if err := doc.Parse([]byte(text)); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return schema.ReadUsage(doc.Root())
}

func TestUsageIsReadOrUnknown(t *testing.T) {
	known := func(prompt, completion, total int64) schema.Usage {
		return schema.Usage{Prompt: prompt, Completion: completion, Total: total, Known: true}
	}
	for text, want := range map[string]schema.Usage{
		`{"prompt_tokens":3,"completion_tokens":2,"total_tokens":5}`:                                   known(3, 2, 5),
		`{"prompt_tokens":3,"completion_tokens":2}`:                                                    known(3, 2, 5),
		`{"prompt_tokens":3,"completion_tokens":2,"total_tokens":null}`:                                known(3, 2, 5),
		`{"prompt_tokens":3,"total_tokens":3}`:                                                         known(3, 0, 3),
		`{"prompt_tokens":3}`:                                                                          known(3, 0, 3),
		`{"total_tokens":9}`:                                                                           known(0, 0, 9),
		`{"prompt_tokens":0,"completion_tokens":0,"total_tokens":0}`:                                   known(0, 0, 0),
		`{"prompt_tokens":3.0,"completion_tokens":2e0,"total_tokens":5}`:                               known(3, 2, 5),
		`{"prompt_tokens":3,"completion_tokens":2,"total_tokens":50}`:                                  known(3, 2, 50),
		`{"input_tokens":3,"output_tokens":2,"total_tokens":5}`:                                        known(3, 2, 5),
		`{"input_tokens":3,"output_tokens":2}`:                                                         known(3, 2, 5),
		`{"prompt_tokens":3,"input_tokens":9,"completion_tokens":2}`:                                   known(3, 2, 5),
		`{"prompt_tokens":null,"input_tokens":9}`:                                                      known(9, 0, 9),
		`{"prompt_tokens":1099511627776}`:                                                              known(1<<40, 0, 1<<40),
		`{"prompt_tokens":3,"completion_tokens":2,"completion_tokens_details":{"reasoning_tokens":1}}`: known(3, 2, 5),
		`{"prompt_tokens":9,"prompt_tokens_details":{"cached_tokens":4}}`:                              {Prompt: 9, Total: 9, Cached: 4, IsCachedTold: true, Known: true},
		`{"prompt_tokens":9,"prompt_tokens_details":{"cached_tokens":0}}`:                              {Prompt: 9, Total: 9, IsCachedTold: true, Known: true},
		`{"input_tokens":9,"input_tokens_details":{"cached_tokens":4}}`:                                {Prompt: 9, Total: 9, Cached: 4, IsCachedTold: true, Known: true},
		`{"prompt_tokens":9,"prompt_tokens_details":null}`:                                             known(9, 0, 9),
		`{"prompt_tokens":9,"prompt_tokens_details":{}}`:                                               known(9, 0, 9),
		`{"prompt_tokens":9,"prompt_tokens_details":{"cached_tokens":null}}`:                           known(9, 0, 9),
		`{"prompt_tokens":9,"prompt_tokens_details":{"cached_tokens":-1}}`:                             known(9, 0, 9),
		`{}`:                              {},
		`null`:                            {},
		`[]`:                              {},
		`[3,2,5]`:                         {},
		`"5"`:                             {},
		`5`:                               {},
		`{"type":"duration","seconds":9}`: {Seconds: 9},
		`{"prompt_tokens":0}`:             {},
		`{"prompt_tokens":-1}`:            {},
		`{"prompt_tokens":3,"completion_tokens":-2,"total_tokens":1}`: {},
		`{"prompt_tokens":3,"completion_tokens":2,"total_tokens":-5}`: {},
		`{"prompt_tokens":1.5}`:                 {},
		`{"prompt_tokens":"3"}`:                 {},
		`{"prompt_tokens":true}`:                {},
		`{"prompt_tokens":{}}`:                  {},
		`{"prompt_tokens":1099511627777}`:       {},
		`{"prompt_tokens":9223372036854775807}`: {},
		`{"prompt_tokens":9223372036854775808}`: {},
		`{"prompt_tokens":1e300}`:               {},
		`{"prompt_tokens":1e999}`:               {},
		`{"prompt_tokens":3,"completion_tokens":2,"total_tokens":9223372036854775807}`: {},
	} {
		if got := usageOf(t, text); got != want {
			t.Errorf("%s: %+v, want %+v", text, got, want)
		}
	}
}

// FuzzUsage compares with arbitrary-precision arithmetic: a known report says
// what the backend wrote, and no count is absurd.
func FuzzUsage(f *testing.F) {
	f.Add("3", "2", "5")
	f.Add("-1", "0", "null")
	f.Add("1e3", "2.0", "1099511627776")
	f.Add("9223372036854775807", "1.5", `"5"`)
	f.Add("{}", "[]", "true")
	f.Fuzz(func(t *testing.T, prompt, completion, total string) {
		text := `{"prompt_tokens":` + prompt + `,"completion_tokens":` + completion + `,"total_tokens":` + total + `}`
		var doc jsonscan.Document
		var fields map[string]json.RawMessage
		if doc.Parse([]byte(text)) != nil || json.Unmarshal([]byte(text), &fields) != nil || len(fields) != 3 {
			t.Skip("no such object")
		}
		got := schema.ReadUsage(doc.Root())
		if !got.Known {
			if got != (schema.Usage{}) {
				t.Errorf("%s: %+v is unknown and says something", text, got)
			}
			return
		}
		const most = 1 << 40
		if got.Prompt < 0 || got.Completion < 0 || got.Total < 0 || got.Prompt > most || got.Completion > most || got.Total > 2*most {
			t.Errorf("%s: %+v", text, got)
		}
		for name, count := range map[string]int64{"prompt_tokens": got.Prompt, "completion_tokens": got.Completion, "total_tokens": got.Total} {
			written := string(fields[name])
			if written == "null" || name == "total_tokens" && count == got.Prompt+got.Completion {
				continue
			}
			if exact, ok := new(big.Rat).SetString(written); !ok || exact.Cmp(new(big.Rat).SetInt64(count)) != 0 {
				t.Errorf("%s: %s is %d", text, name, count)
			}
		}
	})
}
