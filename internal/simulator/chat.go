package simulator

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// prompt is what a chat request says, whatever dialect it came in.
type prompt struct {
	said       string // the text of the last message of the user
	images     int    // in the whole conversation
	tokens     int    // of the whole conversation
	answering  bool   // the last message is the result of a tool
	toolResult string

	tools      []tool
	toolChoice toolChoice

	wantsJSON  bool
	jsonSchema jsontext.Value // nil means any object

	stops  []string
	limit  int    // of tokens per answer; 0 means none
	script string // replaces the text of the answer
}

// answer is what the simulator says: a text or a tool call.
type answer struct {
	text   string
	call   *toolCall
	tokens int
	finish string
}

// spoken returns the part of an answer that is sent token by token.
func (a *answer) spoken() string {
	if a.call != nil {
		return a.call.arguments
	}
	return a.text
}

// reply answers a prompt. The same prompt gets the same answer; choice
// numbers the alternatives for one prompt.
func (p *prompt) reply(name string, choice int) answer {
	seed := seedOf(p.said) + uint64(choice)
	if called := p.calledTool(); called != nil {
		arguments, count, cut := limitTokens(called.arguments(), p.limit)
		return answer{
			call:   &toolCall{id: "call_" + hex(seed), name: called.name, arguments: arguments},
			tokens: count,
			finish: finishOf(finishTool, cut),
		}
	}
	text, count, cut := limitTokens(cutAtStop(p.text(name, seed), p.stops), p.limit)
	return answer{text: text, tokens: count, finish: finishOf(finishStop, cut)}
}

func finishOf(normal string, cut bool) string {
	if cut {
		return finishLength
	}
	return normal
}

func (p *prompt) text(name string, seed uint64) string {
	switch {
	case p.script != "":
		return p.script
	case p.wantsJSON && p.jsonSchema != nil:
		return string(sampleOf(p.jsonSchema))
	case p.wantsJSON:
		return p.jsonText(name)
	case p.answering:
		return fmt.Sprintf("The tool answered: %s. Voilà, says %s, a simulated backend; no model ran.", quote(p.toolResult), name)
	}
	return p.greeting(name, seed)
}

// greeting tells people what they talk to. Every form has characters outside
// ASCII, so that each answer exercises the UTF-8 paths of its readers.
func (p *prompt) greeting(name string, seed uint64) string {
	said := quote(p.said)
	text := ""
	switch seed % 3 {
	case 0:
		text = "你好! I am " + name + ", a simulated backend. You said: " + said + ". No model ran for this answer."
	case 1:
		text = "Enchanté! This is the simulated backend " + name + ". What reached me was " + said + ", and no model ran to answer it."
	default:
		text = "Olá! You said " + said + " to " + name + ", a simulated backend where no model runs."
	}
	switch p.images {
	case 0:
		return text
	case 1:
		return text + " One image came along."
	}
	return text + " " + strconv.Itoa(p.images) + " images came along."
}

func (p *prompt) jsonText(name string) string {
	text := appendString([]byte(`{"simulated":true,"backend":`), name)
	text = append(text, `,"greeting":"你好","you_said":`...)
	text = appendString(text, excerpt(p.said))
	return string(append(text, '}'))
}

// longestQuote bounds the echo, in bytes, so that a long prompt does not make
// a long answer.
const longestQuote = 240

func excerpt(text string) string {
	text = strings.TrimSpace(text)
	if len(text) <= longestQuote {
		return text
	}
	return strings.ToValidUTF8(text[:longestQuote], "") + "…"
}

func quote(text string) string {
	if text = excerpt(text); text != "" {
		return `"` + text + `"`
	}
	return "nothing"
}

// seedOf hashes a text (FNV-1a).
func seedOf(text string) uint64 {
	hash := uint64(14695981039346656037)
	for i := range len(text) {
		hash = (hash ^ uint64(text[i])) * 1099511628211
	}
	return hash
}

func hex(n uint64) string { return fmt.Sprintf("%016x", n) }
