package alerts

import (
	"strings"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/patchbay-ai/patchbay/internal/plain/say"
)

// State is what an alert says of its subject.
type State string

// The states.
const (
	Firing State = "firing" // it began, or got worse
	Over   State = "over"
	Test   State = "test" // somebody tries the webhook
)

// Message is one alert. It has no secrets, and nothing that clients or models wrote. Its JSON is
// the plain form.
type Message struct {
	Kind string `json:"kind"`
	// State says whether it began or is over, Severity how bad it is: warning or critical.
	State    State  `json:"state"`
	Severity string `json:"severity"`
	// Subject is the account, instance or model that it is about.
	Subject string `json:"subject"`
	// Text says it in words, Code and Values for programs.
	Text   string            `json:"text"`
	Code   say.Code          `json:"code"`
	Values map[string]string `json:"values,omitzero"`
	// Since is when it began, Time when it was noticed, and Gateway the host that noticed it.
	Since   time.Time `json:"since"`
	Time    time.Time `json:"time"`
	Gateway string    `json:"gateway"`
}

// NewMessage returns a message that says a sentence.
func NewMessage(kind string, state State, said say.Sentence) Message {
	return Message{Kind: kind, State: state, Severity: "warning", Text: said.String(), Code: said.Code,
		Values: said.Values}
}

// Body returns the message in a format.
func (m Message) Body(format Format) []byte {
	var value any = m
	switch format {
	case Slack:
		value = m.slack()
	case Teams:
		value = m.teams()
	case Plain:
	}
	body, _ := json.Marshal(value, json.Deterministic(true)) // it has texts and times only
	return body
}

// title is the first line of a message for people.
func (m Message) title() string { return "[" + strings.ToUpper(string(m.State)) + "] " + m.Text }

type object = map[string]any

// slack returns the message for an incoming webhook of Slack. Its text is what notifications
// show. Only there &, < and > have a meaning.
func (m Message) slack() object {
	plain := func(text string) object { return object{"type": "plain_text", "text": text} }
	escaped := strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;").Replace(m.title())
	return object{"text": escaped, "blocks": []object{
		{"type": "section", "text": plain(m.title())},
		{"type": "context", "elements": []object{plain(m.origin())}},
	}}
}

// teams returns the message for a webhook of a workflow in Teams: an adaptive card. Its texts
// are runs, in which nothing is markup.
func (m Message) teams() object {
	run := func(text, weight string, isSubtle bool) object {
		return object{"type": "RichTextBlock", "inlines": []object{
			{"type": "TextRun", "text": text, "weight": weight, "isSubtle": isSubtle},
		}}
	}
	return object{"type": "message", "attachments": []object{{
		"contentType": "application/vnd.microsoft.card.adaptive", "contentUrl": nil,
		"content": object{
			"$schema": "http://adaptivecards.io/schemas/adaptive-card.json", "type": "AdaptiveCard", "version": "1.2",
			"body": []object{run(m.title(), "Bolder", false), run(m.origin(), "Default", true)},
		},
	}}}
}

// origin says where a message comes from, and since when it is so.
func (m Message) origin() string {
	return m.Kind + " · " + m.Subject + " · since " + m.Since.UTC().Format(time.RFC3339) + " · " + m.Gateway
}
