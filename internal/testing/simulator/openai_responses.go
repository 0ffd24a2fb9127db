package simulator

import (
	"net/http"
	"strings"
	"sync"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// responses is the dialect of OpenAI's Responses API.
type responses struct{ openAI }

func (responses) errorEvent(message string) []byte {
	out := appendString([]byte("event: error\ndata: {\"type\":\"error\",\"code\":\"server_error\",\"message\":"),
		message)
	return append(out, ",\"param\":null,\"sequence_number\":0}\n\n"...)
}

// responseRequest is a request of the Responses API. Fields that are null count as not
// given.
type responseRequest struct {
	Model           string         `json:"model"`
	Input           jsontext.Value `json:"input"`
	Instructions    string         `json:"instructions"`
	Previous        string         `json:"previous_response_id"`
	Stream          bool           `json:"stream"`
	Store           *bool          `json:"store"`
	MaxOutputTokens *wholeNumber   `json:"max_output_tokens"`
	Tools           []struct {
		Type       string         `json:"type"`
		Name       string         `json:"name"`
		Parameters jsontext.Value `json:"parameters"`
	} `json:"tools"`
	ToolChoice jsontext.Value `json:"tool_choice"`
	Text       struct {
		Format struct {
			Type   string         `json:"type"`
			Schema jsontext.Value `json:"schema"`
		} `json:"format"`
	} `json:"text"`
}

// responseInput is an item of the input, of any type.
type responseInput struct {
	Type      string         `json:"type"`
	Role      string         `json:"role"`
	Content   jsontext.Value `json:"content"`
	Name      string         `json:"name"`
	Arguments string         `json:"arguments"`
	Output    jsontext.Value `json:"output"`
}

// answerResponses serves POST /v1/responses.
func answerResponses(x *exchange) {
	var request responseRequest
	if !x.decode(&request) || !x.serves(request.Model) {
		return
	}
	if request.Previous != "" {
		if _, found := x.backend.responses.find(request.Previous); !found {
			x.fail(http.StatusBadRequest, *invalidRequest("previous_response_id", "previous_response_not_found",
				"Previous response with id '"+request.Previous+"' not found."))
			return
		}
	}
	p, problem := request.prompt()
	if problem != nil {
		x.fail(http.StatusBadRequest, *problem)
		return
	}
	x.chains(p, false)
	reply := newResponseReply(x, &request, p)
	if request.Store == nil || *request.Store {
		x.backend.responses.add(reply.id, reply.whole("completed"))
	}
	if request.Stream && !x.step.Plain {
		reply.stream(x.stream())
		return
	}
	x.send(http.StatusOK, "application/json", reply.whole("completed"))
}

// prompt converts the request to the prompt that all dialects share.
func (r *responseRequest) prompt() (*prompt, *apiError) {
	p := &prompt{}
	p.read(r.Instructions)
	if r.MaxOutputTokens != nil {
		p.limit = int(*r.MaxOutputTokens)
	}
	var items []responseInput
	switch value := given(r.Input); {
	case value == nil && r.Previous == "":
		return nil, invalidRequest("input", "missing_required_parameter", "Missing required parameter: 'input'.")
	case value != nil && value.Kind() == '"':
		p.said = unquote(value)
		p.read(p.said)
	case value != nil && json.Unmarshal(value, &items, lenient()) != nil:
		return nil, invalidRequest("input", "invalid_value", "'input' must be a string or an array of items.")
	}
	for i := range items {
		items[i].addTo(p, i == len(items)-1)
	}
	for i := range r.Tools {
		if r.Tools[i].Type == "function" {
			p.tools = append(p.tools, tool{r.Tools[i].Name, given(r.Tools[i].Parameters)})
		}
	}
	p.toolChoice = r.toolChoice()
	p.thinks = p.saysThink()
	switch r.Text.Format.Type {
	case "json_object":
		p.wantsJSON = true
	case "json_schema":
		p.wantsJSON, p.jsonSchema = true, given(r.Text.Format.Schema)
	}
	return p, nil
}

func (r *responseRequest) toolChoice() toolChoice {
	value := given(r.ToolChoice)
	if value == nil {
		return toolChoice{}
	}
	if value.Kind() == '"' {
		word := unquote(value)
		return toolChoice{never: word == "none", required: word == "required"}
	}
	var named struct {
		Name string `json:"name"`
	}
	_ = json.Unmarshal(value, &named, lenient()) // without a name any tool is called
	return toolChoice{required: true, name: named.Name}
}

// addTo adds the texts of an item to the prompt.
func (i *responseInput) addTo(p *prompt, last bool) {
	switch i.Type {
	case "function_call":
		p.read(i.Name, i.Arguments)
	case "function_call_output":
		p.answering, p.toolResult = last, responseText(i.Output, p)
	case "", "message":
		text := responseText(i.Content, p)
		if i.Role == "user" {
			p.said = text
		}
	}
}

// responseText returns a text or the texts of parts, and counts them and their images.
func responseText(content jsontext.Value, p *prompt) string {
	if given(content) == nil {
		return ""
	}
	if content.Kind() == '"' {
		text := unquote(content)
		p.read(text)
		return text
	}
	var parts []struct {
		Type string `json:"type"`
		Text string `json:"text"`
	}
	_ = json.Unmarshal(content, &parts, lenient()) // other content has no text
	var texts strings.Builder
	for i := range parts {
		if parts[i].Type == "input_image" {
			p.images++
			p.tokens += imageTokens
		}
		texts.WriteString(parts[i].Text)
	}
	p.read(texts.String())
	return texts.String()
}

// mostResponses is how many responses a backend keeps.
const mostResponses = 256

// responseStore keeps the latest responses.
type responseStore struct {
	mu    sync.Mutex
	kept  map[string][]byte // by id
	order []string          // oldest first
}

func (s *responseStore) add(id string, response []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.kept == nil {
		s.kept = map[string][]byte{}
	}
	s.kept[id] = response
	s.order = append(s.order, id)
	if len(s.order) > mostResponses {
		delete(s.kept, s.order[0])
		s.order = s.order[1:]
	}
}

func (s *responseStore) find(id string) ([]byte, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	response, found := s.kept[id]
	return response, found
}

func (s *responseStore) remove(id string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, found := s.kept[id]
	delete(s.kept, id)
	return found
}

// answerResponse serves GET and DELETE /v1/responses/{id}.
func answerResponse(x *exchange) {
	id := x.request.PathValue("id")
	response, found := x.backend.responses.find(id)
	if !found {
		x.fail(http.StatusNotFound, *invalidRequest("", "", "Response with id '"+id+"' not found."))
		return
	}
	if x.request.Method == http.MethodDelete {
		x.backend.responses.remove(id)
		response = append(appendString([]byte(`{"id":`), id), `,"object":"response","deleted":true}`...)
	}
	x.send(http.StatusOK, "application/json", response)
}
