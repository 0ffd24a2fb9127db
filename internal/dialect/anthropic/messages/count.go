package messages

import (
	"unicode/utf8"

	"github.com/patchbay-ai/patchbay/internal/dialect"
	"github.com/patchbay-ai/patchbay/internal/hosts/wire"
	"github.com/patchbay-ai/patchbay/internal/request/accountids"
	"github.com/patchbay-ai/patchbay/internal/request/chat"
	"github.com/patchbay-ai/patchbay/internal/request/jsonscan"
	"github.com/patchbay-ai/patchbay/internal/request/jsonwrite"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
)

// ReadCountRequest reads a request for the number of tokens of a message. Such
// requests are no use of a model, so that neither the ledger nor a limit counts them.
func ReadCountRequest(req *schema.Request, body []byte) error {
	if err := readRequest(req, schema.DoorCountTokens, body); err != nil {
		return err
	}
	req.Stream, req.IncludeUsage, req.Uncounted = false, false, true
	return nil
}

// CountTokens passes requests for the number of tokens to backends that count them
// in the same dialect.
var CountTokens = &dialect.Adapter{Account: accountids.Anthropic, Call: callCount, Reply: replyCount}

// callCount passes the client's body on.
func callCount(req *schema.Request, to *dialect.Target, call *wire.Call) error {
	return passBody(req, to, call, "application/json")
}

// replyCount passes the count on.
func replyCount(_ *schema.Request, answer dialect.Answer, reply *dialect.Reply) error {
	return WriteCount(answer, reply, "input_tokens")
}

// WriteCount replies with the count that an answer has under a name.
func WriteCount(answer dialect.Answer, reply *dialect.Reply, name string) error {
	n, isEstimated, err := reply.ReadCount(answer, name)
	if err != nil {
		return err
	}
	reply.Segments = append(reply.Segments[:0], CountBody(n, isEstimated))
	return nil
}

// CountBody returns the reply to a request for the number of tokens. A count that no
// backend gave is marked as an estimate.
func CountBody(n int64, estimated bool) []byte {
	var w jsonwrite.Writer
	w.Open(`{"input_tokens":`).Int(n)
	if estimated {
		w.Literal(`"estimated":true`)
	}
	w.EndObject()
	return w.Out
}

// Tokenize asks a backend that splits chats into tokens, as vLLM does.
var Tokenize = &dialect.Adapter{Call: CallTokenize, Reply: replyTokenize}

// CallTokenize asks for the tokens of the chat; the answer has their number as count.
func CallTokenize(req *schema.Request, to *dialect.Target, call *wire.Call) error {
	asked, err := req.Chat()
	if err != nil {
		return err
	}
	model := req.ModelJSON()
	if to.ModelJSON != nil {
		model = to.ModelJSON
	}
	var w jsonwrite.Writer
	w.Object()
	w.Member("model", model)
	w.Name("messages")
	chat.WriteMessages(&w, asked.Messages)
	asked.WriteTools(&w)
	w.Literal(`"add_generation_prompt":true`)
	w.EndObject()
	to.Begin(call, to.PathFor(req), "application/json", "application/json")
	call.Body = append(call.Body[:0], w.Out)
	return nil
}

// replyTokenize reads how many tokens there are.
func replyTokenize(_ *schema.Request, answer dialect.Answer, reply *dialect.Reply) error {
	return WriteCount(answer, reply, "count")
}

const (
	// imageTokens is about what an image of usual size costs, messageTokens what
	// the frame of a message does.
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

// estimateValue adds what a value costs, in quarters of tokens and in whole ones.
func estimateValue(v jsonscan.Value, quarters, fixed *int64) {
	switch v.Kind() {
	case jsonscan.String:
		*quarters += textQuarters(v.Text())
	case jsonscan.Object:
		if kind := string(v.Get("type").Text()); kind == "base64" || kind == "input_image" || kind == "input_file" {
			*fixed += imageTokens
			return
		}
		if v.Get("role").Given() || v.Get("input_schema").Given() {
			*fixed += messageTokens
		}
		for m := range v.All() {
			if key := string(m.Key()); key != "type" && key != "role" && key != "cache_control" && key != "signature" && key != "encrypted_content" && key != "id" {
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
