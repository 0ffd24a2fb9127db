package simulator

import (
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// tool is a function that the caller offers.
type tool struct {
	name       string
	parameters jsontext.Value // a JSON schema, or nil
}

// toolCall is a call of such a function.
type toolCall struct{ id, name, arguments string }

// toolChoice says whether and which tool the caller wants called.
type toolChoice struct {
	never    bool
	required bool
	name     string // the only function to call
}

// calledTool returns the tool that the prompt asks for, or nil. The result of
// a tool is always answered with text, because another call would never end.
func (p *prompt) calledTool() *tool {
	if len(p.tools) == 0 || p.toolChoice.never || p.answering {
		return nil
	}
	for i := range p.tools {
		if name := p.toolChoice.name; name != "" && name == p.tools[i].name {
			return &p.tools[i]
		}
	}
	said := strings.ToLower(p.said)
	for i := range p.tools {
		if name := p.tools[i].name; name != "" && strings.Contains(said, strings.ToLower(name)) {
			return &p.tools[i]
		}
	}
	if p.toolChoice.required || strings.Contains(said, "use the tool") {
		return &p.tools[0]
	}
	return nil
}

func (t *tool) arguments() string {
	if t.parameters == nil {
		return "{}"
	}
	return string(sampleOf(t.parameters))
}
