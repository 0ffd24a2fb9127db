package responses

import (
	"strconv"
	"time"

	"github.com/patchbay-ai/patchbay/internal/request/jsonscan"
	"github.com/patchbay-ai/patchbay/internal/request/jsonwrite"
)

// others are the members of a response that do not repeat the request, but for its id. The
// time of its making is not known beforehand.
var others = [...]member{
	{"background", `false`},
	{"completed_at", `null`},
	{"created_at", ``},
	{"error", `null`},
	{"incomplete_details", `null`},
	{"object", `"response"`},
	{"output", `[]`},
	{"status", `"in_progress"`},
	{"usage", `null`},
}

// memberAt returns a member by its number: first come the members that repeat the
// request.
func memberAt(i int) member {
	if i < len(echoed) {
		return echoed[i]
	}
	return others[i-len(echoed)]
}

// memberNames has the names of the members by their numbers.
var memberNames = jsonscan.NewNames(
	"frequency_penalty", "instructions", "max_output_tokens", "max_tool_calls", "metadata", "model",
	"parallel_tool_calls", "presence_penalty", "previous_response_id", "prompt_cache_key", "reasoning",
	"safety_identifier", "service_tier", "store", "temperature", "text", "tool_choice", "tools",
	"top_logprobs", "top_p", "truncation", "user", "background", "completed_at", "created_at", "error",
	"incomplete_details", "object", "output", "status", "usage")

// required has a bit for each member that the API requires of every response, by its number:
// all but user, the last of the members that repeat the request, which it calls deprecated.
const required = uint64(1)<<(len(echoed)+len(others)) - 1 - 1<<(len(echoed)-1)

// present returns a bit for each member that a response has as the API wants it, by its
// number in memberNames.
func present(response jsonscan.Value) (bits uint64) {
	for m := range response.All() {
		if i := memberNames.Number(m.RawKey()); i >= 0 && (m.Given() || memberAt(i).without == "null") {
			bits |= 1 << i
		}
	}
	return bits
}

// IsWhole reports whether a response has all members that the API requires.
func IsWhole(response jsonscan.Value) bool {
	usage := response.Get("usage")
	return present(response)&required == required && (usage.Kind() != jsonscan.Object || hasAll(usage, usageMembers[:]))
}

// usageMembers are the members that the API requires of a usage. An untold number is 0.
var usageMembers = [...]string{"input_tokens", "input_tokens_details", "output_tokens", "output_tokens_details",
	"total_tokens"}

// Echo holds the members of a request that its response repeats. It completes the
// responses of backends that leave out members which the API requires.
type Echo struct {
	values [len(echoed)][]byte
}

// EchoOf returns the members for the response to a request, given the root of the request's
// body. It is a copy.
func EchoOf(root jsonscan.Value) *Echo {
	e := new(Echo)
	text := make([]byte, 0, sizeOfEcho(root))
	for i, m := range echoed {
		w := jsonwrite.Writer{Out: text[len(text):]}
		writeEchoed(&w, m.name, root.Get(m.name), m.without, true)
		e.values[i] = w.Out
		text = text[:min(cap(text), len(text)+len(w.Out))]
	}
	return e
}

// Complete adds the edits that give a response its missing members. Present members stay,
// but for null where the API wants something else.
func (e *Echo) Complete(edits []jsonscan.Edit, response jsonscan.Value) []jsonscan.Edit {
	if response.Kind() != jsonscan.Object {
		return edits
	}
	var added jsonwrite.Writer
	for i, missing := 0, required&^present(response); missing>>i > 0; i++ {
		if missing>>i&1 == 0 {
			continue
		}
		name, value := memberAt(i).name, []byte(memberAt(i).without)
		switch {
		case i < len(echoed):
			value = e.values[i]
		case name == "created_at", name == "completed_at" && response.Is("status", completed):
			value = strconv.AppendInt(nil, time.Now().Unix(), 10)
		}
		if there := response.Get(name); there.Kind() == jsonscan.Null {
			edits = append(edits, there.Replace(value))
		} else {
			added.Member(name, value)
		}
	}
	if len(added.Out) > 0 {
		edits = append(edits, response.Insert(added.Out))
	}
	return completeUsage(edits, response.Get("usage"))
}

// completeUsage adds the edit that gives a usage its missing members.
func completeUsage(edits []jsonscan.Edit, usage jsonscan.Value) []jsonscan.Edit {
	if usage.Kind() != jsonscan.Object || hasAll(usage, usageMembers[:]) {
		return edits
	}
	var added jsonwrite.Writer
	for _, name := range usageMembers {
		if usage.Get(name).Kind() != jsonscan.Absent {
			continue
		}
		added.Name(name)
		switch name {
		case "input_tokens_details":
			added.Literal(`{"cached_tokens":0,"cache_write_tokens":0}`)
		case "output_tokens_details":
			added.Literal(`{"reasoning_tokens":0}`)
		case "total_tokens":
			input, _ := usage.Get("input_tokens").Int()
			output, _ := usage.Get("output_tokens").Int()
			added.Int(input + output)
		default:
			added.Literal("0")
		}
	}
	return append(edits, usage.Insert(added.Out))
}
