package simulator

import (
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// geminiRequest is a chat request in Gemini's dialect.
type geminiRequest struct {
	Contents          []geminiContent `json:"contents"`
	SystemInstruction geminiContent   `json:"systemInstruction"`
	Tools             []struct {
		FunctionDeclarations []struct {
			Name                 string         `json:"name"`
			Parameters           jsontext.Value `json:"parameters"`
			ParametersJSONSchema jsontext.Value `json:"parametersJsonSchema"`
		} `json:"functionDeclarations"`
	} `json:"tools"`
	ToolConfig struct {
		FunctionCallingConfig struct {
			Mode                 string   `json:"mode"`
			AllowedFunctionNames []string `json:"allowedFunctionNames"`
		} `json:"functionCallingConfig"`
	} `json:"toolConfig"`
	GenerationConfig struct {
		MaxOutputTokens    int            `json:"maxOutputTokens"`
		StopSequences      []string       `json:"stopSequences"`
		CandidateCount     int            `json:"candidateCount"`
		ResponseMIMEType   string         `json:"responseMimeType"`
		ResponseSchema     jsontext.Value `json:"responseSchema"`
		ResponseJSONSchema jsontext.Value `json:"responseJsonSchema"`
		ThinkingConfig     struct {
			IncludeThoughts bool `json:"includeThoughts"`
		} `json:"thinkingConfig"`
	} `json:"generationConfig"`
}

// answerGeminiChat serves generateContent and streamGenerateContent.
func answerGeminiChat(x *exchange, model string, stream bool) {
	var request geminiRequest
	if !x.decodeGemini(&request) {
		return
	}
	count := max(request.GenerationConfig.CandidateCount, 1)
	switch {
	case len(request.Contents) == 0:
		x.fail(http.StatusBadRequest, apiError{message: "* GenerateContentRequest.contents: contents is not specified"})
		return
	case request.GenerationConfig.MaxOutputTokens < 0 || count > 8:
		x.fail(http.StatusBadRequest, apiError{message: "Request contains an invalid argument."})
		return
	}
	p := request.prompt()
	x.chains(p, x.backend.options.Chain)
	r := &geminiReply{
		step:         &x.step,
		id:           hex(seedOf(p.said)) + "-" + strconv.FormatUint(x.serial, 10),
		model:        model,
		promptTokens: p.tokens,
		blocked:      strings.Contains(p.said, "BLOCK"),
		answers:      make([]answer, count),
	}
	for i := range r.answers {
		r.answers[i] = p.reply(x.backend.options.Name, i)
	}
	switch {
	case !stream || x.step.Plain:
		x.send(http.StatusOK, "application/json; charset=UTF-8", r.plain())
	case x.request.URL.Query().Get("alt") == "sse":
		if x.step.Framing.LineEnd == "" {
			x.step.Framing.LineEnd = "\r\n"
		}
		r.stream(x.stream())
	default: // without alt=sse the stream is one JSON array, written piece by piece
		r.inArray = true
		r.stream(x.streamAs(asBytes, "application/json; charset=UTF-8"))
	}
}

// prompt converts the request to the prompt that all dialects share.
func (r *geminiRequest) prompt() *prompt {
	config := &r.GenerationConfig
	p := &prompt{
		limit:      config.MaxOutputTokens,
		stops:      config.StopSequences,
		wholeCalls: true,
		tokens:     countTokens(r.SystemInstruction.text()),
	}
	for i := range r.Contents {
		r.Contents[i].addTo(p, i == len(r.Contents)-1)
	}
	calling := &r.ToolConfig.FunctionCallingConfig
	for i := range r.Tools {
		for _, function := range r.Tools[i].FunctionDeclarations {
			if allowed := calling.AllowedFunctionNames; len(allowed) > 0 && !slices.Contains(allowed, function.Name) {
				continue
			}
			parameters := given(function.Parameters)
			if parameters == nil {
				parameters = given(function.ParametersJSONSchema)
			}
			p.tools = append(p.tools, tool{function.Name, parameters})
		}
	}
	p.toolChoice = toolChoice{never: calling.Mode == "NONE", required: calling.Mode == "ANY"}
	if config.ResponseMIMEType == "application/json" {
		p.wantsJSON, p.jsonSchema = true, given(config.ResponseSchema)
		if p.jsonSchema == nil {
			p.jsonSchema = given(config.ResponseJSONSchema)
		}
	}
	p.thinks = config.ThinkingConfig.IncludeThoughts || p.saysThink()
	return p
}

// addTo adds the content of a message to the prompt.
func (c *geminiContent) addTo(p *prompt, last bool) {
	text := c.text()
	p.read(text)
	for i := range c.Parts {
		part := &c.Parts[i]
		if given(part.InlineData) != nil || given(part.FileData) != nil {
			p.images++
			p.tokens += imageTokens
		}
		p.read(part.FunctionCall.Name, string(part.FunctionCall.Args))
		if part.FunctionResponse != nil {
			p.answering, p.toolResult = last, string(part.FunctionResponse.Response)
			p.read(p.toolResult)
		}
	}
	if c.Role == "model" && last {
		p.begun = text
	}
	if c.Role != "model" && text != "" {
		p.said = text
	}
}
