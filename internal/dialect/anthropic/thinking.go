package anthropic

import (
	"bytes"
	"strconv"

	"github.com/patchbay-ai/patchbay/internal/request/jsonscan"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
)

const (
	// defaultMaxTokens is the limit for a caller that gave none: the backend
	// wants one.
	defaultMaxTokens = 4096
	// minBudget is the least that the backend takes for thinking.
	minBudget = 1024
)

// isAdaptive reports whether the model of a name such as claude-opus-4-7 or
// vendor/claude-3.5-sonnet-20241022 refuses a budget for thinking and any sampling setting: it takes
// an effort instead. A name that is not understood is taken for a model that accepts everything.
func isAdaptive(name []byte) bool {
	_, rest, found := bytes.Cut(bytes.ToLower(name), []byte("claude-"))
	if !found {
		return false
	}
	var version [2]int
	at := 0
	for word := range bytes.FieldsFuncSeq(rest, func(r rune) bool {
		return r == '-' || r == '.' || r == ':' ||
			r == '@'
	}) {
		if string(word) == "mythos" {
			return true
		}
		n, err := strconv.Atoi(string(word))
		if err != nil {
			continue
		}
		if len(word) > 2 || at == len(version) {
			break // a date
		}
		version[at] = n
		at++
	}
	return version[0] > 4 || version[0] == 4 && version[1] >= 7
}

// writeLimits writes how long the answer may be, how much thinking goes before
// it, and how it is sampled. Thinking and sampling exclude each other.
func (w *requestWriter) writeLimits() *schema.Error {
	limit, given := w.MaxTokens.Int()
	if !given {
		limit = defaultMaxTokens
	}
	effort := w.effort()
	thinks, err := w.thinks(effort)
	if err != nil {
		return err
	}
	switch own := w.Other("thinking"); {
	case own.Given():
		w.Member("thinking", own.Raw())
		thinks = !own.Is("type", "disabled")
		if budget, ok := own.Get("budget_tokens").Int(); ok && !given {
			limit += budget // the default is room for the answer alone
		}
	case thinks && w.isAdaptive:
		w.Member("thinking", []byte(`{"type":"adaptive"}`))
	case thinks:
		var budget int64
		budget, limit = thinkingBudget(effort, limit, given)
		w.Name("thinking")
		w.beginBlock("enabled")
		w.Name("budget_tokens").Int(budget)
		w.EndObject()
	}
	w.Name("max_tokens").Int(limit)
	if !thinks && !w.isAdaptive {
		w.writeSampling()
	}
	return nil
}

// effort returns how hard the model should think, in the backend's words; empty
// if the caller did not say or wants none.
func (w *requestWriter) effort() string {
	switch w.Effort {
	case "none":
		return ""
	case "minimal":
		return "low"
	}
	return w.Effort
}

// thinks reports whether thinking is to be switched on. An effort is a hint, so
// it gives way where the backend would refuse it: when a tool is forced, and
// when the model is in the middle of calling tools and the caller did not keep
// its earlier thinking.
func (w *requestWriter) thinks(effort string) (bool, *schema.Error) {
	if effort == "" || w.unsigned && !w.isAdaptive {
		return false, nil
	}
	kind, err := w.toolChoice()
	return kind != "any" && kind != "tool", err
}

// thinkingBudget chooses how much of the limit thinking may take. A limit that
// leaves no room for both is raised.
func thinkingBudget(effort string, limit int64, given bool) (budget, raised int64) {
	switch effort {
	case "low":
		budget = minBudget
	case "medium":
		budget = 4096
	default:
		budget = 16384
	}
	if !given {
		return budget, budget + limit
	}
	if budget >= limit {
		budget = max(minBudget, limit/2)
	}
	if budget >= limit {
		limit = budget + max(limit, 1)
	}
	return budget, limit
}

// writeSampling writes the sampling settings. The temperature ends at 1 there.
func (w *requestWriter) writeSampling() {
	if t, ok := w.Temperature.Float(); ok {
		raw := w.Temperature.Raw()
		if t > 1 {
			raw = []byte("1")
		}
		w.Member("temperature", raw)
	}
	// Some models refuse both together; a top_p of 1 changes nothing anyway.
	if p, ok := w.TopP.Float(); ok && (p < 1 || w.Temperature.Kind() != jsonscan.Number) {
		w.Field("top_p", w.TopP)
	}
	w.Field("top_k", w.TopK)
}
