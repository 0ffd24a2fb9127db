package simulator

import (
	"net/http"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// anthropic is the dialect of Anthropic's Messages API.
type anthropic struct{}

func (anthropic) errorBody(status int, problem apiError) []byte {
	return []byte(AnthropicError(problem.message, anthropicErrorType(status)))
}

func (anthropic) errorEvent(message string) []byte {
	return []byte("event: error\ndata: " + AnthropicError(message, "overloaded_error") + "\n\n")
}

func (anthropic) key(x *exchange) string { return x.request.Header.Get("X-Api-Key") }

// AnthropicError returns an error body in Anthropic's shape.
func AnthropicError(message, kind string) string {
	out := appendString([]byte(`{"type":"error","error":{"type":`), kind)
	out = appendString(append(out, `,"message":`...), message)
	return string(append(out, `},"request_id":"req_simulated"}`...))
}

func anthropicErrorType(status int) string {
	switch status {
	case http.StatusUnauthorized:
		return "authentication_error"
	case http.StatusForbidden:
		return "permission_error"
	case http.StatusNotFound:
		return "not_found_error"
	case http.StatusRequestEntityTooLarge:
		return "request_too_large"
	case http.StatusTooManyRequests:
		return "rate_limit_error"
	case http.StatusGatewayTimeout:
		return "timeout_error"
	case 529:
		return "overloaded_error"
	}
	if status >= http.StatusInternalServerError {
		return "api_error"
	}
	return "invalid_request_error"
}

// anthropicRequest is a request of the Messages API.
type anthropicRequest struct {
	Model         string             `json:"model"`
	MaxTokens     *wholeNumber       `json:"max_tokens"`
	System        jsontext.Value     `json:"system"`
	Messages      []anthropicMessage `json:"messages"`
	Stream        bool               `json:"stream"`
	StopSequences []string           `json:"stop_sequences"`
	Thinking      struct {
		Type         string `json:"type"`
		BudgetTokens int    `json:"budget_tokens"`
	} `json:"thinking"`
	Tools []struct {
		Name        string         `json:"name"`
		InputSchema jsontext.Value `json:"input_schema"`
	} `json:"tools"`
	ToolChoice struct {
		Type string `json:"type"`
		Name string `json:"name"`
	} `json:"tool_choice"`
	OutputConfig struct {
		Format struct {
			Type   string         `json:"type"`
			Schema jsontext.Value `json:"schema"`
		} `json:"format"`
	} `json:"output_config"`
}

type anthropicMessage struct {
	Role    string         `json:"role"`
	Content jsontext.Value `json:"content"`
}

// anthropicBlock is a content block of a message, of any type.
type anthropicBlock struct {
	Type     string         `json:"type"`
	Text     string         `json:"text"`
	Thinking string         `json:"thinking"`
	Name     string         `json:"name"`
	Input    jsontext.Value `json:"input"`
	Content  jsontext.Value `json:"content"` // of a tool result: a text or blocks
}

// answerMessages serves POST /v1/messages.
func answerMessages(x *exchange) {
	if x.request.Header.Get("Anthropic-Version") == "" {
		x.fail(http.StatusBadRequest, apiError{message: "anthropic-version: header is required"})
		return
	}
	var request anthropicRequest
	if !x.decode(&request) {
		return
	}
	if problem := request.check(); problem != "" {
		x.fail(http.StatusBadRequest, apiError{message: problem})
		return
	}
	if !x.backend.knows(request.Model) {
		x.fail(http.StatusNotFound, apiError{message: "model: " + request.Model})
		return
	}
	p, problem := request.prompt()
	if problem != "" {
		x.fail(http.StatusBadRequest, apiError{message: problem})
		return
	}
	x.chains(p, x.backend.options.Chain)
	if p.isChained && p.begun != strings.TrimRight(p.begun, " \n") {
		x.fail(http.StatusBadRequest, apiError{message: "messages: final assistant content cannot end with trailing " +
			"whitespace"})
		return
	}
	reply := newAnthropicReply(x, &request, p)
	if request.Stream && !x.step.Plain {
		reply.stream(x.stream())
		return
	}
	x.sendJSON(reply.plain())
}

func (r *anthropicRequest) check() string {
	switch {
	case r.Model == "":
		return "model: Field required"
	case r.MaxTokens == nil:
		return "max_tokens: Field required"
	case *r.MaxTokens < 1:
		return "max_tokens: Input should be greater than or equal to 1"
	case len(r.Messages) == 0:
		return "messages: at least one message is required"
	case r.Thinking.Type == "enabled" && r.Thinking.BudgetTokens < 1024:
		return "thinking.enabled.budget_tokens: Input should be greater than or equal to 1024"
	case r.Thinking.Type == "enabled" && r.Thinking.BudgetTokens >= int(*r.MaxTokens):
		return "`max_tokens` must be greater than `thinking.budget_tokens`"
	}
	return ""
}

// prompt converts the request to the prompt that all dialects share.
func (r *anthropicRequest) prompt() (p *prompt, problem string) {
	p = &prompt{limit: int(*r.MaxTokens), stops: r.StopSequences, wholeCalls: true}
	if format := &r.OutputConfig.Format; format.Type == "json_schema" {
		p.wantsJSON, p.jsonSchema = true, given(format.Schema)
	}
	if !readBlocks(r.System, func(block *anthropicBlock) { p.read(block.Text) }) {
		return nil, "system: Input should be a string or an array of blocks"
	}
	for i := range r.Messages {
		if problem = r.Messages[i].addTo(p, i == len(r.Messages)-1); problem != "" {
			return nil, problem
		}
	}
	for i := range r.Tools {
		p.tools = append(p.tools, tool{r.Tools[i].Name, given(r.Tools[i].InputSchema)})
	}
	switch r.ToolChoice.Type {
	case "none":
		p.toolChoice.never = true
	case "any":
		p.toolChoice.required = true
	case "tool":
		p.toolChoice = toolChoice{required: true, name: r.ToolChoice.Name}
	}
	p.thinks = r.Thinking.Type == "enabled" || r.Thinking.Type == "adaptive" || r.Thinking.Type == "" && p.saysThink()
	return p, ""
}

// addTo adds the content of a message to the prompt.
func (m *anthropicMessage) addTo(p *prompt, last bool) string {
	if m.Role != "user" && m.Role != "assistant" {
		return "messages: Unexpected role \"" + m.Role + "\". Allowed roles are \"user\" or \"assistant\"."
	}
	var said strings.Builder
	ok := readBlocks(m.Content, func(block *anthropicBlock) {
		p.read(block.Text, block.Thinking)
		switch block.Type {
		case "text":
			said.WriteString(block.Text)
		case "image":
			p.images++
			p.tokens += imageTokens
		case "tool_use":
			p.read(block.Name, string(block.Input))
		case "tool_result":
			var result strings.Builder
			readBlocks(block.Content, func(inner *anthropicBlock) { result.WriteString(inner.Text) })
			p.answering, p.toolResult = last, result.String()
			p.read(p.toolResult)
		}
	})
	if !ok {
		return "messages: content should be a string or an array of blocks"
	}
	if m.Role == "assistant" && last {
		p.begun = said.String()
	}
	if m.Role == "user" && said.Len() > 0 {
		p.said = said.String()
	}
	return ""
}

// readBlocks visits the blocks of a content, which may also be a plain string.
func readBlocks(content jsontext.Value, visit func(*anthropicBlock)) bool {
	if given(content) == nil {
		return true
	}
	if content.Kind() == '"' {
		visit(&anthropicBlock{Type: "text", Text: unquote(content)})
		return true
	}
	var blocks []anthropicBlock
	if json.Unmarshal(content, &blocks, lenient()) != nil {
		return false
	}
	for i := range blocks {
		visit(&blocks[i])
	}
	return true
}
