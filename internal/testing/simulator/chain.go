package simulator

import (
	"slices"
	"strings"
)

// chainWords are the tokens of a chained answer. Each is one token with its white space,
// whatever precedes it; some have several bytes for a character, or need escapes.
var chainWords = [...]string{
	" the", " model", " goes", " on", " where", " 你", "好", " naïve", " 🙂", "!", " Ärger", "\n\nNext", ",", " quoted",
	"\\", " Žluťoučký", " 日", "\"",
}

// longestChain bounds a chained answer, with its prompt, in bytes.
const longestChain = 4000

// chain returns the rest of an answer. Each of its tokens is a hash of everything before
// it: the conversation and the answer so far. So an answer that another backend continues
// shows every byte that was lost or doubled before. The answer ends where the hash says
// so.
func (p *prompt) chain() string {
	var before strings.Builder
	texts := slices.DeleteFunc(slices.Clone(p.texts), func(text string) bool { return text == "" })
	if p.begun != "" {
		texts = texts[:len(texts)-1]
	}
	for _, text := range texts {
		before.WriteString(text)
	}
	if !p.isText {
		before.WriteByte(0) // where the answer begins
	}
	before.WriteString(p.begun)
	from := before.Len()
	for before.Len() < longestChain {
		hash := mix(seedOf(before.String()))
		if hash%40 == 0 && (p.begun != "" || p.isText || before.Len() > from) {
			break
		}
		before.WriteString(chainWords[(hash>>16)%uint64(len(chainWords))])
	}
	return before.String()[from:]
}

// chains makes the answer to a prompt a chained one if the backend has Chain set. The
// model continues a last message of its own if the request asks for it, or always does.
func (x *exchange) chains(p *prompt, goesOn bool) {
	p.script, p.isChained = x.step.Text, x.backend.options.Chain
	p.goesOn = goesOn
	if !goesOn {
		p.begun = ""
	}
}
