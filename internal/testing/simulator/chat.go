package simulator

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// prompt is the content of a chat request, independent of its dialect.
type prompt struct {
	said       string   // the text of the last message of the user
	images     int      // in the whole conversation
	tokens     int      // of the whole conversation
	texts      []string // of the whole conversation, in their order
	answering  bool     // the last message is the result of a tool
	toolResult string

	tools      []tool
	toolChoice toolChoice

	wantsJSON  bool
	jsonSchema jsontext.Value // nil means any object

	stops  []string
	limit  int    // of tokens per answer; 0 means none
	script string // replaces the text of the answer
	fills  bool   // the answer is as long as the limit
	// begun is a last message of the model itself, which it continues. isChained says
	// that the answer is a chained one, and isText that the request continues a text and
	// no conversation.
	begun             string
	isChained, isText bool
	goesOn            bool // the request asks the model to continue begun

	thinks     bool // aloud, before the answer
	wholeCalls bool // the dialect cannot stream a tool call in parts
}

// answer is the simulator's answer: a text or a tool call, optionally after a
// thought.
type answer struct {
	thought       string
	text          string
	call          *toolCall
	tokens        int // of thought, text and tool call together
	thoughtTokens int
	finish        string
	stopped       string // the stop sequence that ended the text
}

// spoken returns the part of an answer that is sent token by token.
func (a *answer) spoken() string {
	if a.call != nil {
		return a.call.arguments
	}
	return a.text
}

// read adds texts to the conversation.
func (p *prompt) read(texts ...string) {
	for _, text := range texts {
		p.tokens += countTokens(text)
	}
	p.texts = append(p.texts, texts...)
}

// reply answers a prompt. The same prompt gets the same answer; choice
// numbers the alternatives for one prompt.
func (p *prompt) reply(name string, choice int) answer {
	seed := seedOf(p.said) + uint64(choice)
	if !p.thinks {
		return p.conclude(name, seed, p.limit)
	}
	thought, count, cut := limitTokens("Someone says "+quote(p.said)+". A model would think now… I am "+name+
		" and only count words.", p.limit)
	a := answer{tokens: count, finish: finishLength}
	if rest := p.limit - count; p.limit == 0 {
		a = p.conclude(name, seed, 0)
		a.tokens += count
	} else if !cut && rest > 0 {
		a = p.conclude(name, seed, rest)
		a.tokens += count
	}
	a.thought, a.thoughtTokens = thought, count
	return a
}

// conclude makes the answer itself, of at most limit tokens.
func (p *prompt) conclude(name string, seed uint64, limit int) answer {
	if called := p.calledTool(); called != nil {
		arguments, count, cut := limitTokens(called.arguments(), limit)
		a := answer{tokens: count, finish: finishOf(finishTool, cut)}
		if !cut || !p.wholeCalls {
			a.call = &toolCall{id: "call_" + hex(seed), name: called.name, arguments: arguments}
		}
		return a
	}
	text, stopped := cutAtStop(p.text(name, seed), p.stops)
	text, count, cut := limitTokens(text, limit)
	if cut {
		stopped = ""
	}
	return answer{text: text, tokens: count, finish: finishOf(finishStop, cut), stopped: stopped}
}

// saysThink reports whether the prompt itself asks for a thought. The word must be in
// capitals: ordinary texts do not match.
func (p *prompt) saysThink() bool { return strings.Contains(p.said, "THINK") }

func finishOf(normal string, cut bool) string {
	if cut {
		return finishLength
	}
	return normal
}

func (p *prompt) text(name string, seed uint64) string {
	switch {
	case p.fills:
		return strings.Repeat(" tick", p.limit)
	case p.script != "":
		return p.script
	case p.isChained:
		return p.chain()
	case p.begun != "" && p.goesOn:
		return p.rest(name, seed)
	case p.wantsJSON && p.jsonSchema != nil:
		return string(sampleOf(p.jsonSchema))
	case p.wantsJSON:
		return p.jsonText(name)
	case p.answering:
		return fmt.Sprintf("The tool answered: %s. Voilà, says %s, a simulated backend; no model ran.",
			quote(p.toolResult), name)
	}
	return p.greeting(name, seed) + p.story()
}

// story makes an answer long if the prompt says LONG, in capitals. A person then has time
// to break the backend meanwhile.
func (p *prompt) story() string {
	if !strings.Contains(p.said, "LONG") {
		return ""
	}
	const sentences = 24
	var text strings.Builder
	for n := range sentences {
		fmt.Fprintf(&text, " Sentence %d of %d takes its time, and nobody thought about it.", n+1, sentences)
	}
	return text.String()
}

// rest returns a backend's continuation of an answer that another one began.
func (p *prompt) rest(name string, seed uint64) string {
	whole := p.greeting(name, seed) + p.story()
	at := 0
	for at < len(whole) && at < len(p.begun) {
		at += tokenLength(whole[at:])
	}
	return " [" + name + " goes on here]" + whole[at:]
}

// greeting returns a text which says that a simulator answers. Every variant has
// characters outside ASCII, because each answer tests how its readers handle UTF-8.
func (p *prompt) greeting(name string, seed uint64) string {
	said := quote(p.said)
	text := ""
	switch seed % 3 {
	case 0:
		text = "你好! I am " + name + ", a simulated backend. You said: " + said + ". No model ran for this answer."
	case 1:
		text = "Enchanté! This is the simulated backend " + name + ". What reached me was " + said +
			", and no model ran to answer it."
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

// longestQuote bounds the echo, in bytes: a long prompt makes no long answer.
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
