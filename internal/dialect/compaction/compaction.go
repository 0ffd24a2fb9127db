// Package compaction decides how long conversations of the Responses API are made short, and
// how their tokens are counted, for backends that do not have these endpoints themselves.
package compaction

import (
	"fmt"
	"slices"

	"github.com/patchbay-ai/patchbay/internal/dialect"
	"github.com/patchbay-ai/patchbay/internal/dialect/anthropic/messages"
	"github.com/patchbay-ai/patchbay/internal/dialect/responses"
	"github.com/patchbay-ai/patchbay/internal/request/accountids"
	"github.com/patchbay-ai/patchbay/internal/request/chat"
	"github.com/patchbay-ai/patchbay/internal/request/jsonscan"
	"github.com/patchbay-ai/patchbay/internal/request/jsonwrite"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
)

// Parse reads the body of a request to make a conversation short.
func Parse(req *schema.Request, body []byte) error {
	if err := responses.ParseFor(req, schema.DoorCompact, body); err != nil {
		return err
	}
	req.Stream, req.IncludeUsage = false, false
	return nil
}

// ParseCount reads the body of a request for the number of tokens. Such requests are no use
// of a model: neither the ledger nor a limit counts them.
func ParseCount(req *schema.Request, body []byte) error {
	if err := responses.ParseFor(req, schema.DoorInputTokens, body); err != nil {
		return err
	}
	req.Stream, req.IncludeUsage, req.Uncounted = false, false, true
	return nil
}

// task tells the model how to handle a conversation.
const task = "Below is the transcript of a conversation between a user and an assistant, who may have called tools. " +
	"Write a summary of it with which another assistant can go on as if it had read everything: what the user wants, " +
	"decisions and agreements, " +
	"facts, names, numbers, paths and code that matter later, what was done with which result, and what is left to " +
	"do. " +
	"Leave out pleasantries. Do not answer the conversation and do not add anything that is not in it. Reply with " +
	"the summary only."

// translator makes a conversation short with a call of the model itself.
type translator struct {
	responses.Conversation
	read  *responses.Request
	users []byte // the messages of the user, as elements of a JSON array
}

// NewClient returns the client that makes a conversation short: one chat that asks the model
// to sum it up.
func NewClient(req *schema.Request, c responses.Conversation) *dialect.Client {
	base := responses.NewClient(req, c)
	t := &translator{Conversation: c}
	req.Decode = t.decode
	base.Reply, base.Events = t.reply, nil
	return base
}

// decode reads the conversation and makes the chat of it.
func (t *translator) decode(req *schema.Request, room chat.Room) (_ *chat.Request, err error) {
	if t.read, err = responses.Read(req.Body.Root(), t.Past, room); err != nil {
		return nil, err
	}
	if err := t.keepUsers(); err != nil {
		return nil, err
	}
	text := chat.Escape(task + "\n\n<transcript>\n")
	for i := range t.read.Chat.Messages {
		text = appendMessage(text, &t.read.Chat.Messages[i])
	}
	text = append(text, `</transcript>`...)
	if room.Reserve != nil {
		if err := room.Reserve(len(text) + len(t.users)); err != nil {
			return nil, err
		}
	}
	return &chat.Request{Messages: []chat.Message{{Role: chat.User, Content: chat.Content{Text: text}}}}, nil
}

// keepUsers finds the words of the user, which stay unchanged.
func (t *translator) keepUsers() error {
	var before []byte
	if t.Previous != "" && t.Past != nil {
		var err error
		if before, err = t.Past.Conversation(t.Previous); err != nil {
			return err
		}
	}
	var all, w jsonwrite.Writer
	all.Array()
	for _, items := range [...][]byte{before, t.read.Input} {
		if len(items) > 0 {
			all.Raw(items)
		}
	}
	all.EndArray()
	doc := jsonscan.Document{AllowDuplicateKeys: true}
	if err := doc.Parse(all.Out); err != nil {
		return fmt.Errorf("the items of a conversation: %w", err)
	}
	for item := range doc.Root().All() {
		if item.Is("type", "message") && item.Is("role", chat.User) {
			w.Raw(item.Raw())
		}
	}
	t.users = w.Out
	return nil
}

// appendMessage appends a message to a transcript, which is text with escapes.
func appendMessage(to chat.Text, m *chat.Message) chat.Text {
	line := func(who string, text chat.Text) {
		if len(text) > 0 {
			to = append(append(append(append(to, who...), `: `...), text...), `\n`...)
		}
	}
	who := m.Role
	if m.CallID != nil {
		who = "output of a tool"
	}
	line(who, m.Text)
	for _, part := range m.Parts {
		if part.Type == chat.TextPart {
			line(who, part.Text)
		} else {
			line(who, chat.Escape("["+part.Type+"]"))
		}
	}
	line(who, m.Refusal)
	for i := range m.Calls {
		line("call of a tool", slices.Concat(m.Calls[i].Name, []byte{' '}, m.Calls[i].Arguments))
	}
	return to
}

// reply writes the short conversation: one item with the words of the user, and the summary.
func (t *translator) reply(_ *schema.Request, answer *chat.Answer, reply *dialect.Reply) error {
	choice := answer.First()
	if choice == nil || len(choice.Text) == 0 {
		return dialect.Invalid("no summary")
	}
	w := jsonwrite.Writer{Out: reply.Room(2*(len(t.users)+len(choice.Text)) + 512)}
	w.Open(`{"id":`).Plain(t.read.ID)
	w.Literal(`"object":"response.compaction"`)
	w.Name("created_at").Int(t.read.Created)
	w.Name("output").Array()
	w.Open(`{"id":`).Plain("cmp_" + t.read.ID[len("resp_"):])
	w.Literal(`"type":"compaction"`)
	w.Name("encrypted_content").Plain(responses.SealSummary(t.users, chat.Unescape(choice.Text)))
	w.EndObject()
	w.EndArray()
	w.Name("usage")
	responses.WriteUsage(&w, &answer.Usage)
	w.EndObject()
	reply.Set(w.Out)
	return nil
}

// Pass passes requests to make a conversation short to backends that can themselves.
var Pass = &dialect.Adapter{Refuse: refuse, Account: accountids.Responses, Call: dialect.PassBody, Reply: passReply}

func refuse(req *schema.Request) error { return responses.Refuse(req.Body.Root()) }

// passReply passes the short conversation on as it is.
func passReply(req *schema.Request, answer dialect.Answer, reply *dialect.Reply) error {
	root, _, err := reply.ScanMember(answer.Body, "output", jsonscan.Array)
	if err != nil {
		return err
	}
	reply.Usage = schema.ReadUsage(root.Get("usage"))
	reply.Segments = append(reply.Segments[:0], answer.Body)
	accountids.NoteResponse(req.Gave, root)
	return nil
}

// CountTokens passes requests for the number of tokens to backends that count them
// themselves, and Tokenize asks backends that split chats into tokens, as vLLM does.
var (
	CountTokens = dialect.Counts(accountids.Responses, dialect.PassBody, "input_tokens", CountBody)
	Tokenize    = dialect.Counts(accountids.None, dialect.CallTokenize, "count", CountBody)
)

// CountBody returns the reply to a request for the number of tokens. A count that no backend
// gave is marked as an estimate.
func CountBody(n int64, estimated bool) []byte {
	return dialect.WriteCount(`{"object":"response.input_tokens","input_tokens":`, n, estimated)
}

// Estimate returns about how many tokens a request has, given the items before its input.
func Estimate(req *schema.Request, before [][]byte) int64 {
	n := messages.EstimateOf(req.Body.Root(), "instructions", "input", "tools")
	for _, items := range before {
		const bytesPerToken = 4
		n += int64(len(items)) / bytesPerToken
	}
	return n
}
