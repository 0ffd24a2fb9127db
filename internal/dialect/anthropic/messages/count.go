package messages

import (
	"unicode/utf8"

	"github.com/patchbay-ai/patchbay/internal/dialect"
	"github.com/patchbay-ai/patchbay/internal/request/accountids"
	"github.com/patchbay-ai/patchbay/internal/request/jsonscan"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
)

// ReadCountRequest reads a request for the number of tokens of a message. Such requests
// are no use of a model: neither the ledger nor a limit counts them.
func ReadCountRequest(req *schema.Request, body []byte) error {
	if err := readRequest(req, schema.DoorCountTokens, body); err != nil {
		return err
	}
	req.Stream, req.IncludeUsage, req.Uncounted = false, false, true
	return nil
}

// CountTokens passes requests for the number of tokens to backends that count them in the
// same dialect, and Tokenize asks backends that split chats into tokens, as vLLM does.
var (
	CountTokens = dialect.Counts(accountids.Anthropic, callPass, "input_tokens", CountBody)
	Tokenize    = dialect.Counts(accountids.None, dialect.CallTokenize, "count", CountBody)
)

// CountBody returns the reply to a request for the number of tokens. A count that no
// backend gave is marked as an estimate.
func CountBody(n int64, estimated bool) []byte {
	return dialect.WriteCount(`{"input_tokens":`, n, estimated)
}

const (
	// imageTokens is about the cost of an image of usual size, messageTokens the cost
	// of the frame of a message.
	imageTokens   = 1500
	messageTokens = 4
)

// Estimate returns about how many tokens a request has, for backends that cannot
// tell. Most tokenizers need one token for four letters of English, and about one for
// each Chinese, Japanese or Korean character.
func Estimate(req *schema.Request) int64 {
	return EstimateOf(req.Body.Root(), "system", "messages", "tools")
}

// EstimateOf is Estimate for the members of these names.
func EstimateOf(root jsonscan.Value, names ...string) int64 {
	doc := jsonscan.Document{Deep: true}
	var quarters, fixed int64
	for _, name := range names {
		if v := root.Get(name); v.Given() {
			estimateValue(doc.Rescan(v), &quarters, &fixed)
		}
	}
	return fixed + (quarters+3)/4
}

// estimateValue adds the cost of a value, in quarters of tokens and in whole ones.
func estimateValue(v jsonscan.Value, quarters, fixed *int64) {
	switch v.Kind() {
	case jsonscan.String:
		*quarters += textQuarters(v.Text())
	case jsonscan.Object:
		if kind := string(v.TextOf("type")); kind == "base64" || kind == "input_image" || kind == "input_file" {
			*fixed += imageTokens
			return
		}
		if v.Get("role").Given() || v.Get("input_schema").Given() {
			*fixed += messageTokens
		}
		for m := range v.All() {
			if key := string(m.Key()); key != "type" && key != "role" && key != "cache_control" && key != "signature" &&
				key != "encrypted_content" && key != "id" {
				*quarters += int64(len(key))
				estimateValue(m, quarters, fixed)
			}
		}
	case jsonscan.Array:
		for m := range v.All() {
			estimateValue(m, quarters, fixed)
		}
	case jsonscan.Absent, jsonscan.Null:
	default:
		*quarters += int64(len(v.Raw()))
	}
}

// textQuarters returns about how many quarters of tokens a text has.
func textQuarters(text []byte) int64 {
	const firstIdeograph = 0x2e80
	var n int64
	for len(text) > 0 {
		char, size := utf8.DecodeRune(text)
		text = text[size:]
		switch {
		case char < utf8.RuneSelf:
			n++
		case char < firstIdeograph:
			n += 2
		default:
			n += 4
		}
	}
	return n
}
