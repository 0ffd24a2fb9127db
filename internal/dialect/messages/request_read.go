// Package messages speaks Anthropic's Messages API towards clients: it reads their
// requests, translates them into the unified shape and answers back, and passes both
// through to backends that speak the same API.
package messages

import (
	"bytes"
	"slices"
	"strconv"

	"github.com/patchbay-ai/patchbay/internal/dialect"
	"github.com/patchbay-ai/patchbay/internal/jsonscan"
	"github.com/patchbay-ai/patchbay/internal/jsonwrite"
	"github.com/patchbay-ai/patchbay/internal/schema"
)

// Client speaks the Messages API towards clients.
var Client = &dialect.Client{Unify: unifyMessage, Reply: replyMessage, Events: eventsMessage}

// ReadRequest reads a request of the Messages API. It checks what the gateway itself
// uses, and the numbers by the rules of the API; a backend of this dialect gets the body
// as it came.
func ReadRequest(req *schema.Request, body []byte) error {
	var f fields
	if err := readRequest(req, schema.DoorMessages, body, &f); err != nil {
		return err
	}
	if err := checkSampling(&f); err != nil {
		return err
	}
	for _, v := range []jsonscan.Value{f[fieldMetadata], f[fieldThinking], f[fieldToolChoice]} {
		if v.Given() && v.Kind() != jsonscan.Object {
			name := string(v.Key())
			return schema.InvalidValue(name, "'"+name+"' must be an object.")
		}
	}
	return schema.CheckInteger("thinking.budget_tokens", f[fieldThinking].Get("budget_tokens"), leastBudget)
}

// leastBudget is how many tokens of thinking the API lets a model have at least.
const leastBudget = 1024

// checkSampling checks how the answer is to be sampled and where it ends.
func checkSampling(f *fields) error {
	if !f[fieldMaxTokens].Given() {
		return schema.MissingParameter("max_tokens")
	}
	if err := schema.CheckInteger("max_tokens", f[fieldMaxTokens], 0); err != nil {
		return err
	}
	if err := schema.CheckNumber("temperature", f[fieldTemperature], 0, 1); err != nil {
		return err
	}
	if err := schema.CheckNumber("top_p", f[fieldTopP], 0, 1); err != nil {
		return err
	}
	if err := schema.CheckInteger("top_k", f[fieldTopK], 0); err != nil {
		return err
	}
	stop := f[fieldStopSequences]
	if !stop.Given() {
		return nil
	}
	if stop.Kind() != jsonscan.Array {
		return schema.InvalidValue("stop_sequences", "'stop_sequences' must be an array of strings.")
	}
	for s := stop.First(); s.Kind() != jsonscan.Absent; s = s.Next() {
		if s.Kind() != jsonscan.String {
			return schema.InvalidValue("stop_sequences", "'stop_sequences' must be an array of strings.")
		}
	}
	return nil
}

func readRequest(req *schema.Request, door schema.Door, body []byte, f *fields) error {
	if err := req.ParseSource(door, body, fieldNames, f[:]); err != nil {
		return err
	}
	switch messages := f[fieldMessages]; {
	case !messages.Given():
		return schema.MissingParameter("messages")
	case messages.Kind() != jsonscan.Array:
		return schema.InvalidValue("messages", "'messages' must be an array.")
	case messages.Empty():
		return schema.InvalidValue("messages", "'messages' must have at least one message.")
	}
	switch stream := f[fieldStream]; stream.Kind() {
	case jsonscan.Absent, jsonscan.Null, jsonscan.False:
	case jsonscan.True:
		// Tokens are counted for every stream, and clients always get them.
		req.Stream, req.IncludeUsage = true, true
	default:
		return schema.InvalidValue("stream", "'stream' must be true or false.")
	}
	if user := f[fieldMetadata].Get("user_id"); user.Given() {
		if user.Kind() != jsonscan.String {
			return schema.InvalidValue("metadata.user_id", "'metadata.user_id' must be a string.")
		}
		req.User = user.Text()
	}
	return nil
}

// unifier writes a request in the unified shape.
type unifier struct {
	jsonwrite.Writer
	f fields

	blocks jsonscan.Document // the content of the message at hand
	deep   jsonscan.Document // other values that lie deeper than the request records

	// user are the content parts of the user's turn that is open. Neighbours of one
	// role are one turn.
	user userTurn
}

// longestUser is the longest name of a user that all backends take.
const longestUser = 64

// unifyMessage writes a request in the unified shape. Hints that only a backend of this
// dialect understands, such as cache_control, are left out. What changes the answer
// and has no equal is an error.
func unifyMessage(req *schema.Request, into []byte) ([]byte, error) {
	if err := dialect.ReserveUnified(req); err != nil {
		return nil, err
	}
	u := unifier{f: fieldsOf(req.Source.Body.Root())}
	u.blocks.Deep, u.deep.Deep = true, true
	u.Begin(slices.Grow(into, len(req.Source.Body.Data())+512), nil)
	u.Object()
	u.Member("model", u.f[fieldModel].Raw())
	for _, step := range []func() *schema.Error{
		u.refuse, u.writeMessages, u.writeTools, u.writeSampling, u.writeFormat,
	} {
		if err := step(); err != nil {
			return nil, err
		}
	}
	req.EffortHint = u.writeThinking()
	if len(req.User) > 0 && len(req.User) <= longestUser {
		u.Name("user")
		u.Text(req.User)
	}
	if req.Stream {
		u.Literal(`"stream":true`)
		u.Literal(`"stream_options":{"include_usage":true}`)
	}
	u.EndObject()
	return u.Out, nil
}

// refuse returns an error for fields that only a backend of this dialect can obey.
func (u *unifier) refuse() *schema.Error {
	for _, v := range []jsonscan.Value{u.f[fieldMCPServers], u.f[fieldContainer], u.f[fieldCompaction]} {
		if v.Given() && !v.Empty() {
			name := string(v.Key())
			return schema.InvalidValue(name, "'"+name+"' is not supported by the backend of this model.")
		}
	}
	if u.f[fieldThread].Given() {
		// The messages of a thread are those since its last turn. Clients that know the
		// code in the details send the request again without a thread.
		err := schema.InvalidValue("thread", "'thread' is not supported by the backend of this model, which keeps no conversations. Send the whole conversation without it.")
		err.Details = map[string]any{"error_code": "thread_unsupported_request"}
		return err
	}
	return nil
}

// writeSampling writes how the answer is sampled and where it ends.
func (u *unifier) writeSampling() *schema.Error {
	if n, ok := u.f[fieldMaxTokens].Int(); ok && n == 0 {
		return schema.InvalidValue("max_tokens", "'max_tokens' is 0, which fills a cache of prompts that the backend of this model does not have. It must be at least 1.")
	}
	u.Field("max_tokens", u.f[fieldMaxTokens])
	u.Field("temperature", u.f[fieldTemperature])
	u.Field("top_p", u.f[fieldTopP])
	u.Field("top_k", u.f[fieldTopK])
	if stop := u.f[fieldStopSequences]; stop.Given() && !stop.Empty() {
		u.Member("stop", stop.Raw())
	}
	return nil
}

// writeFormat writes the schema that the answer is to have.
func (u *unifier) writeFormat() *schema.Error {
	param := "output_config.format"
	format := u.f[fieldOutputConfig].Get("format")
	if !format.Given() {
		param = "output_format"
		format = u.f[fieldOutputFormat]
	}
	if !format.Given() {
		return nil
	}
	format = dialect.Rescan(&u.deep, format)
	wanted := format.Get("schema")
	if string(format.Get("type").Text()) != "json_schema" || wanted.Kind() != jsonscan.Object {
		return schema.InvalidValue(param, "'"+param+"' must be of type json_schema and have a schema.")
	}
	u.Open(`"response_format":{"type":"json_schema","json_schema":{"name":"answer","strict":true,`)
	u.Member("schema", wanted.Raw())
	u.Close("}}")
	return nil
}

// writeThinking writes how hard the model is to think. A budget asks for thinking;
// where the model decides itself, or is not to think, or only an effort is given, the
// effort is a hint, which it returns: many models refuse to be told an effort.
func (u *unifier) writeThinking() (hint string) {
	effort := string(u.f[fieldOutputConfig].Get("effort").Text())
	switch effort {
	case "low", "medium", "high", "xhigh", "max":
	default:
		effort = ""
	}
	thinking := u.f[fieldThinking]
	switch string(thinking.Get("type").Text()) {
	case "enabled":
	case "disabled":
		return "none"
	default:
		return effort
	}
	if effort == "" {
		budget, _ := thinking.Get("budget_tokens").Int()
		effort = effortOfBudget(budget)
	}
	u.Name("reasoning_effort")
	u.Plain(effort)
	return effort
}

// effortOfBudget returns the effort whose usual budget is nearest.
func effortOfBudget(budget int64) string {
	const low, medium = 2048, 8192
	switch {
	case budget <= low:
		return "low"
	case budget <= medium:
		return "medium"
	}
	return "high"
}

// writeTools writes the tools and the choice among them.
func (u *unifier) writeTools() *schema.Error {
	tools := u.f[fieldTools]
	if !tools.Given() || tools.Kind() == jsonscan.Array && tools.Empty() {
		if kind := string(u.f[fieldToolChoice].Get("type").Text()); kind == "any" || kind == "tool" {
			return schema.InvalidValue("tool_choice", "'tool_choice' asks for a tool, but there are no 'tools'.")
		}
		return nil
	}
	if tools.Kind() != jsonscan.Array {
		return schema.InvalidValue("tools", "'tools' must be an array.")
	}
	var list jsonwrite.Writer
	list.Out = make([]byte, 0, len(tools.Raw())+64)
	i := 0
	for tool := dialect.Rescan(&u.deep, tools).First(); tool.Kind() != jsonscan.Absent; tool = tool.Next() {
		if err := writeTool(&list, tool); err != nil {
			param := "tools[" + strconv.Itoa(i) + "]"
			return schema.InvalidValue(param, "'"+param+"' "+err.Message)
		}
		i++
	}
	if len(list.Out) == 0 {
		return nil
	}
	u.Name("tools")
	u.Array()
	u.Raw(list.Out)
	u.EndArray()
	return u.writeToolChoice()
}

// writeTool writes one tool. Tools that search among the other tools are left out,
// because the model gets all of those. Other tools that the provider runs, or whose
// description only its models know, cannot be replaced.
func writeTool(w *jsonwrite.Writer, tool jsonscan.Value) *schema.Error {
	kind := tool.Get("type")
	if kind.Given() && string(kind.Text()) != "custom" {
		if bytes.HasPrefix(kind.Text(), []byte("tool_search_tool_")) {
			return nil
		}
		return schema.InvalidValue("", "has the type '"+string(kind.Text())+"', a tool that the backend of this model does not have.")
	}
	name := tool.Get("name")
	if len(dialect.RawText(name)) == 0 {
		return schema.InvalidValue("", "must have a name.")
	}
	input := tool.Get("input_schema")
	if input.Kind() != jsonscan.Object {
		return schema.InvalidValue("", "must have an input_schema that is an object.")
	}
	w.Open(`{"type":"function","function":{`)
	w.Member("name", name.Raw())
	w.Field("description", tool.Get("description"))
	w.Member("parameters", input.Raw())
	if tool.Get("strict").Kind() == jsonscan.True {
		w.Literal(`"strict":true`)
	}
	w.Close("}}")
	return nil
}

func (u *unifier) writeToolChoice() *schema.Error {
	choice := u.f[fieldToolChoice]
	if !choice.Given() {
		return nil
	}
	switch string(choice.Get("type").Text()) {
	case "auto", "none":
		u.Member("tool_choice", choice.Get("type").Raw())
	case "any":
		u.Literal(`"tool_choice":"required"`)
	case "tool":
		name := choice.Get("name")
		if len(dialect.RawText(name)) == 0 {
			return schema.InvalidValue("tool_choice.name", "'tool_choice.name' must be the name of a tool.")
		}
		u.Open(`"tool_choice":{"type":"function","function":{`)
		u.Member("name", name.Raw())
		u.Close("}}")
	default:
		return schema.InvalidValue("tool_choice.type", "'tool_choice.type' must be auto, any, tool or none.")
	}
	if choice.Get("disable_parallel_tool_use").Kind() == jsonscan.True {
		u.Literal(`"parallel_tool_calls":false`)
	}
	return nil
}
