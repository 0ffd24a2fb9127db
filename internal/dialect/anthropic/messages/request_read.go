// Package messages speaks Anthropic's Messages API towards clients: it reads their
// requests, translates answers back, and passes both through to backends that speak the
// same API.
package messages

import (
	"bytes"

	"github.com/patchbay-ai/patchbay/internal/dialect"
	"github.com/patchbay-ai/patchbay/internal/request/chat"
	"github.com/patchbay-ai/patchbay/internal/request/jsonscan"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
)

// Client speaks the Messages API towards clients.
var Client = &dialect.Client{Reply: replyMessage, Events: eventsMessage}

// ReadRequest reads a request of the Messages API. It checks the fields that the gateway
// itself uses, and the numbers by the rules of the API; a backend of this dialect gets
// the body as it came.
func ReadRequest(req *schema.Request, body []byte) error {
	if err := readRequest(req, schema.DoorMessages, body); err != nil {
		return err
	}
	root := req.Body.Root()
	if err := checkSampling(root); err != nil {
		return err
	}
	return schema.CheckInteger("thinking.budget_tokens", root.Get("thinking").Get("budget_tokens"), leastBudget)
}

// leastBudget is how many tokens of thinking the API lets a model have at least.
const leastBudget = 1024

// checkSampling checks how the answer is to be sampled and where it ends.
func checkSampling(root jsonscan.Value) error {
	if !root.Get("max_tokens").Given() {
		return schema.MissingParameter("max_tokens")
	}
	if err := Fields.Check(root); err != nil {
		return err
	}
	stop := root.Get("stop_sequences")
	areStrings := stop.Kind() == jsonscan.Array
	for s := range stop.All() {
		areStrings = areStrings && s.Kind() == jsonscan.String
	}
	if stop.Given() && !areStrings {
		return schema.BadField("stop_sequences", "value.strings")
	}
	return nil
}

func readRequest(req *schema.Request, door schema.Door, body []byte) error {
	if err := req.ParseBody(door, body, Fields); err != nil {
		return err
	}
	req.Decode = readChat
	root := req.Body.Root()
	if err := schema.CheckList("messages", root.Get("messages"), "value.some_message"); err != nil {
		return err
	}
	stream, err := schema.CheckBoolean("stream", root.Get("stream"))
	if err != nil {
		return err
	}
	// Tokens are counted for every stream, and clients always get them.
	req.Stream, req.IncludeUsage = stream, stream
	return req.ReadUser("metadata.user_id", root.Get("metadata").Get("user_id"))
}

// reader reads a request.
type reader struct {
	chat.Request
	root jsonscan.Value // of the body
	room chat.Room

	blocks jsonscan.Document // the content of the message at hand
	deep   jsonscan.Document // other values that lie deeper than the request records

	// user are the parts of the user's turn that is open. Neighbours of one role are one
	// turn.
	user []chat.Part
}

// longestUser is the longest name of a user that all backends take.
const longestUser = 64

// readChat reads the chat that a request asks for. Hints that only a backend of this
// dialect understands, such as cache_control, are left out. A field that changes the
// answer and has no equal is an error.
func readChat(req *schema.Request, room chat.Room) (*chat.Request, error) {
	r := &reader{root: req.Body.Root(), room: room}
	r.blocks.Deep, r.deep.Deep = true, true
	for _, step := range []func() *schema.Error{
		r.refuse, r.readMessages, r.readTools, r.readSampling, r.readFormat,
	} {
		if err := step(); err != nil {
			return nil, err
		}
		if r.room.Err != nil {
			return nil, r.room.Err
		}
	}
	r.readThinking()
	if len(req.User) > 0 && len(req.User) <= longestUser {
		r.User = chat.TextIn(r.root.Get("metadata"), "user_id")
	}
	return &r.Request, nil
}

// refuse returns an error for fields that only a backend of this dialect can obey.
func (r *reader) refuse() *schema.Error {
	for _, v := range []jsonscan.Value{r.root.Get("mcp_servers"), r.root.Get("container"), r.root.Get("compaction")} {
		if v.Given() && !v.Empty() {
			name := string(v.Key())
			return schema.BadField(name, "value.unsupported")
		}
	}
	if r.root.Get("thread").Given() {
		// The messages of a thread begin after its last turn. Clients that know the
		// code in the details send the request again without a thread.
		err := schema.BadField("thread", "value.thread")
		err.Details = map[string]any{"error_code": "thread_unsupported_request"}
		return err
	}
	return nil
}

// readSampling reads how the answer is sampled and where it ends.
func (r *reader) readSampling() *schema.Error {
	if n, ok := r.root.Get("max_tokens").Int(); ok && n == 0 {
		return schema.BadField("max_tokens", "value.fills_cache")
	}
	r.MaxTokens, r.Temperature, r.TopP, r.TopK = r.root.Get("max_tokens"), r.root.Get("temperature"),
		r.root.Get("top_p"), r.root.Get("top_k")
	if stop := r.root.Get("stop_sequences"); !stop.Empty() {
		r.Stop = stop
	}
	return nil
}

// readFormat reads the schema that the answer is to have.
func (r *reader) readFormat() *schema.Error {
	param := "output_config.format"
	format := r.root.Get("output_config").Get("format")
	if !format.Given() {
		param = "output_format"
		format = r.root.Get("output_format")
	}
	if !format.Given() {
		return nil
	}
	format = r.deep.Rescan(format)
	r.Format = chat.Format{Given: true, Type: "json_schema", Name: chat.Text("answer"),
		Schema: format.Get("schema").Raw(), Strict: []byte("true")}
	if !format.Is("type", r.Format.Type) || !r.Format.HasSchema() {
		return schema.BadField(param, "value.typed_schema")
	}
	return nil
}

// readThinking reads how hard the model is to think. A budget asks for thinking;
// where the model decides itself, or is not to think, or only an effort is given, the
// effort is a hint: many models refuse to be told an effort.
func (r *reader) readThinking() {
	effort := string(r.root.Get("output_config").TextOf("effort"))
	switch effort {
	case "low", "medium", "high", "xhigh", "max":
	default:
		effort = ""
	}
	thinking := r.root.Get("thinking")
	switch string(thinking.TextOf("type")) {
	case "enabled":
		if effort == "" {
			budget, _ := thinking.Get("budget_tokens").Int()
			effort = chat.EffortOf(budget)
		}
		r.Effort = effort
	case "disabled":
		effort = "none"
	}
	r.EffortHint = effort
}

// readTools reads the tools and the choice among them.
func (r *reader) readTools() *schema.Error {
	tools := r.root.Get("tools")
	if !tools.Given() || tools.Kind() == jsonscan.Array && tools.Empty() {
		if kind := string(r.root.Get("tool_choice").TextOf("type")); kind == "any" || kind == "tool" {
			return schema.BadField("tool_choice", "value.asks_tool")
		}
		return nil
	}
	if tools.Kind() != jsonscan.Array {
		return schema.BadField("tools", "value.array")
	}
	tools = r.deep.Rescan(tools)
	r.Tools = chat.Grow(&r.room, r.Tools, tools)
	for i, tool := range r.room.All(tools) {
		if err := r.readTool(tool); err != nil {
			return err.WithinElement("tools", i)
		}
	}
	if len(r.Tools) == 0 {
		return nil
	}
	return r.readToolChoice()
}

// readTool reads one tool. Tools that search among the other tools are left out,
// because the model gets all tools. Other tools that the provider runs, or that only
// its models have a description of, cannot be replaced.
func (r *reader) readTool(tool jsonscan.Value) *schema.Error {
	if kind := tool.Get("type"); kind.Given() && string(kind.Text()) != "custom" {
		if bytes.HasPrefix(kind.Text(), []byte("tool_search_tool_")) {
			return nil
		}
		return schema.BadField("", "value.tool_kind", "kind", string(kind.Text()))
	}
	t := chat.Tool{
		Type: chat.FunctionTool, IsFunction: true, Name: chat.TextIn(tool, "name"),
		Description: chat.Given(tool.Get("description")), Schema: tool.Get("input_schema").Raw(),
	}
	if len(t.Name) == 0 {
		return schema.BadField("", "value.has_name")
	}
	if tool.Get("input_schema").Kind() != jsonscan.Object {
		return schema.BadField("", "value.has_schema")
	}
	if tool.IsTrue("strict") {
		t.Strict = tool.Get("strict").Raw()
	}
	r.Tools = append(r.Tools, t)
	return nil
}

func (r *reader) readToolChoice() *schema.Error {
	choice := r.root.Get("tool_choice")
	if !choice.Given() {
		return nil
	}
	switch kind := string(choice.TextOf("type")); kind {
	case "auto", "none":
		r.ToolChoice.Mode = kind
	case "any":
		r.ToolChoice.Mode = "required"
	case "tool":
		r.ToolChoice = chat.ToolChoice{Mode: chat.FunctionTool, Name: chat.TextIn(choice, "name")}
		if len(r.ToolChoice.Name) == 0 {
			return schema.BadField("tool_choice.name", "value.tool_name")
		}
	default:
		return schema.BadField("tool_choice.type", "value.or", "known", "auto, any, tool", "last", "none")
	}
	r.SingleCall = choice.IsTrue("disable_parallel_tool_use")
	return nil
}
