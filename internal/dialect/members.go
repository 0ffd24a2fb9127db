package dialect

import (
	"bytes"
	"errors"
	"fmt"
	"slices"

	"github.com/patchbay-ai/patchbay/internal/dialect/wire"
	"github.com/patchbay-ai/patchbay/internal/request/jsonscan"
	"github.com/patchbay-ai/patchbay/internal/request/jsonwrite"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
)

// Members are members of requests that a backend gets whatever the caller sent. One without a
// value is taken out.
type Members []Field

// fixedMembers are members that the gateway itself reads: they say which model answers what, in
// which form, and how much may be reserved for the answer.
var fixedMembers = []string{
	"model", "messages", "input", "prompt", "contents", "stream", "stream_options", "extra_body", "options",
	"generation_config", "generationConfig", "max_tokens", "max_completion_tokens", "max_output_tokens",
	"max_new_tokens", "n_predict", "num_predict", "min_tokens", "min_new_tokens", "ignore_eos", "n", "best_of",
	"candidate_count",
}

// maxMembers bounds the text of members.
const maxMembers = 16 << 10

// ReadMembers reads members from a text of JSON. null takes a member out.
func ReadMembers(text string) (all Members, err error) {
	if text == "" {
		return nil, nil
	}
	var document jsonscan.Document
	switch err := document.Parse([]byte(text)); {
	case len(text) > maxMembers:
		return nil, fmt.Errorf("must not be longer than %d bytes", maxMembers)
	case err != nil:
		return nil, fmt.Errorf("is no JSON: %w", err)
	case document.Root().Kind() != jsonscan.Object:
		return nil, errors.New(`want an object of JSON, such as {"top_k": 20, "temperature": null}`)
	}
	for v := range document.Root().All() {
		name := string(v.Key())
		if slices.Contains(fixedMembers, name) {
			return nil, fmt.Errorf("must not have %s, which the gateway itself reads", name)
		}
		member := Field{Name: name}
		if v.Given() {
			member.Value = bytes.Clone(v.Raw())
		}
		all = append(all, member)
	}
	return all, nil
}

// onlyCounts are doors to requests that are counted and not answered: their bodies have no members
// that say how.
var onlyCounts = []schema.Door{schema.DoorCountTokens, schema.DoorTokenize, schema.DoorDetokenize}

// Put puts the members into the body of a call, if that is an object of JSON.
func (m Members) Put(req *schema.Request, call *wire.Call) error {
	body := slices.Concat(call.Body...)
	if len(m) == 0 || slices.Contains(onlyCounts, req.Door) || call.Upload != nil || len(body) == 0 || body[0] != '{' {
		return nil
	}
	if err := req.ReserveTranslation(); err != nil {
		return err
	}
	var document jsonscan.Document
	if err := document.Parse(body); err != nil {
		return err
	}
	w := jsonwrite.Writer{Out: make([]byte, 0, len(body)+maxMembers)}
	w.Object()
	for v := range document.Root().All() {
		if !slices.ContainsFunc(m, func(member Field) bool { return member.Name == string(v.Key()) }) {
			w.Name(string(v.RawKey())).Raw(v.Raw())
		}
	}
	for _, member := range m {
		if member.Value != nil {
			w.TextName(member.Name).Raw(member.Value)
		}
	}
	w.EndObject()
	call.Body = append(call.Body[:0], w.Out)
	return nil
}
