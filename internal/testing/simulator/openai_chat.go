package simulator

import (
	"net/http"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// chatRequest is a chat request in OpenAI's dialect. Fields that are null count
// as not given.
type chatRequest struct {
	Model         string        `json:"model"`
	Messages      []chatMessage `json:"messages"`
	Stream        bool          `json:"stream"`
	StreamOptions struct {
		IncludeUsage bool `json:"include_usage"`
	} `json:"stream_options"`
	MaxTokens           *wholeNumber   `json:"max_tokens"`
	MaxCompletionTokens *wholeNumber   `json:"max_completion_tokens"`
	Stop                jsontext.Value `json:"stop"`
	N                   *wholeNumber   `json:"n"`
	ContinueFinal       bool           `json:"continue_final_message"` // as vLLM has it
	// As engines have it: the answer is as long as it may be.
	IgnoreEOS bool `json:"ignore_eos"`
	Tools     []struct {
		Function struct {
			Name       string         `json:"name"`
			Parameters jsontext.Value `json:"parameters"`
		} `json:"function"`
	} `json:"tools"`
	ToolChoice     jsontext.Value `json:"tool_choice"`
	ResponseFormat struct {
		Type       string `json:"type"`
		JSONSchema struct {
			Schema jsontext.Value `json:"schema"`
		} `json:"json_schema"`
	} `json:"response_format"`
}

type chatMessage struct {
	Role      string         `json:"role"`
	Content   jsontext.Value `json:"content"`
	ToolCalls []struct {
		Function struct {
			Name      string `json:"name"`
			Arguments string `json:"arguments"`
		} `json:"function"`
	} `json:"tool_calls"`
}

const mostChoices = 128

// answerChat serves POST /v1/chat/completions.
func answerChat(x *exchange) {
	var request chatRequest
	if !x.decode(&request) {
		return
	}
	if problem := request.check(); problem != nil {
		x.fail(http.StatusBadRequest, *problem)
		return
	}
	if !x.serves(request.Model) {
		return
	}
	prompt, problem := request.prompt()
	if problem != nil {
		x.fail(http.StatusBadRequest, *problem)
		return
	}
	x.chains(prompt, request.ContinueFinal || x.backend.options.Chain && x.backend.options.Kind == LlamaCpp)
	reply := newChatReply(x, &request, prompt)
	if request.Stream && !x.step.Plain {
		reply.stream(x.stream())
		return
	}
	x.sendWritten("application/json", reply.plain)
}

func (r *chatRequest) check() *apiError {
	switch {
	case r.Model == "":
		return invalidRequest("model", "missing_required_parameter", "You must provide a model parameter.")
	case len(r.Messages) == 0:
		return invalidRequest("messages", "missing_required_parameter", "Missing required parameter: 'messages'.")
	case r.N != nil && (*r.N < 1 || *r.N > mostChoices):
		return invalidRequest("n", "invalid_value", "'n' must be between 1 and 128.")
	case r.MaxTokens != nil && *r.MaxTokens < 1:
		return invalidRequest("max_tokens", "invalid_value", "'max_tokens' must be at least 1.")
	case r.MaxCompletionTokens != nil && *r.MaxCompletionTokens < 1:
		return invalidRequest("max_completion_tokens", "invalid_value", "'max_completion_tokens' must be at least 1.")
	}
	return nil
}

// choices returns how many answers are wanted.
func (r *chatRequest) choices() int {
	if r.N == nil {
		return 1
	}
	return int(*r.N)
}

// prompt converts the request to the prompt that all dialects share.
func (r *chatRequest) prompt() (*prompt, *apiError) {
	p := &prompt{limit: r.limit(), fills: r.IgnoreEOS && r.limit() > 0}
	for i := range r.Messages {
		if problem := r.Messages[i].addTo(p, i == len(r.Messages)-1); problem != nil {
			return nil, problem
		}
	}
	for i := range r.Tools {
		function := &r.Tools[i].Function
		p.tools = append(p.tools, tool{function.Name, given(function.Parameters)})
	}
	var problem *apiError
	if p.toolChoice, problem = r.toolChoice(); problem != nil {
		return nil, problem
	}
	if p.stops, problem = r.stops(); problem != nil {
		return nil, problem
	}
	switch r.ResponseFormat.Type {
	case "json_object":
		p.wantsJSON = true
	case "json_schema":
		p.wantsJSON, p.jsonSchema = true, given(r.ResponseFormat.JSONSchema.Schema)
	}
	return p, nil
}

func (r *chatRequest) limit() int {
	switch {
	case r.MaxCompletionTokens != nil:
		return int(*r.MaxCompletionTokens)
	case r.MaxTokens != nil:
		return int(*r.MaxTokens)
	}
	return 0
}

func (r *chatRequest) stops() ([]string, *apiError) {
	if given(r.Stop) == nil {
		return nil, nil
	}
	if r.Stop.Kind() == '"' {
		return []string{unquote(r.Stop)}, nil
	}
	var several []string
	if json.Unmarshal(r.Stop, &several, lenient()) != nil {
		return nil, invalidRequest("stop", "invalid_value", "'stop' must be a string or an array of strings.")
	}
	return several, nil
}

func (r *chatRequest) toolChoice() (toolChoice, *apiError) {
	if given(r.ToolChoice) == nil {
		return toolChoice{}, nil
	}
	if r.ToolChoice.Kind() == '"' {
		word := unquote(r.ToolChoice)
		return toolChoice{never: word == "none", required: word == "required"}, nil
	}
	var named struct {
		Function struct {
			Name string `json:"name"`
		} `json:"function"`
	}
	_ = json.Unmarshal(r.ToolChoice, &named, lenient()) // a name that is missing is not found below
	for i := range r.Tools {
		if r.Tools[i].Function.Name == named.Function.Name {
			return toolChoice{required: true, name: named.Function.Name}, nil
		}
	}
	return toolChoice{}, invalidRequest("tool_choice", "invalid_value",
		"'tool_choice' names a function that is not in 'tools'.")
}

// addTo adds the content of a message to the prompt.
func (m *chatMessage) addTo(p *prompt, last bool) *apiError {
	text, images, ok := m.content()
	if !ok {
		return invalidRequest("messages", "invalid_value",
			"The content of a message must be a string or an array of parts, each with its type.")
	}
	p.images += images
	p.read(text)
	p.tokens += images * imageTokens
	for i := range m.ToolCalls {
		function := &m.ToolCalls[i].Function
		p.read(function.Name, function.Arguments)
	}
	switch m.Role {
	case "user":
		p.said = text
	case "tool", "function":
		p.answering, p.toolResult = last, text
	case "assistant":
		if last {
			p.begun = text
		}
	}
	return nil
}

// content returns the text of a message and its number of images.
func (m *chatMessage) content() (text string, images int, ok bool) {
	if given(m.Content) == nil {
		return "", 0, true
	}
	if m.Content.Kind() == '"' {
		return unquote(m.Content), 0, true
	}
	var parts []struct {
		Type string `json:"type"`
		Text string `json:"text"`
	}
	if json.Unmarshal(m.Content, &parts, lenient()) != nil {
		return "", 0, false
	}
	var texts strings.Builder
	for i := range parts {
		switch parts[i].Type {
		case "": // no part, such as null
			return "", 0, false
		case "text":
			texts.WriteString(parts[i].Text)
		case "image_url":
			images++
		}
	}
	return texts.String(), images, true
}

// given returns a value, or nil where it is absent or null.
func given(value jsontext.Value) jsontext.Value {
	if len(value) == 0 || value.Kind() == 'n' {
		return nil
	}
	return value
}

func unquote(value jsontext.Value) string {
	text, _ := jsontext.AppendUnquote(nil, value) // bytes that are no UTF-8 become U+FFFD
	return string(text)
}
