package socket

import (
	"errors"
	"slices"
	"strings"

	"github.com/coder/websocket"

	"github.com/patchbay-ai/patchbay/internal/request/jsonscan"
	"github.com/patchbay-ai/patchbay/internal/request/jsonwrite"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
	"github.com/patchbay-ai/patchbay/internal/see/say"
)

// fromBackend passes on the backend's messages, and counts its responses. It returns an
// error if the backend broke the connection off.
func (l *relay) fromBackend() error {
	p := l.newParser(true)
	defer p.lease.Close()
	for {
		kind, from, err := l.backend.Reader(l.ctx)
		var text []byte
		if err == nil {
			text, err = readMessage(from, p.takesFrom, func(int, int) {})
		}
		if err == nil {
			err = l.passBack(p, kind, text)
		}
		p.lease.Keep(0)
		if err != nil {
			return l.backendEnded(err)
		}
	}
}

// passBack passes a message of the backend on. It returns an error if there is no memory for
// it.
func (l *relay) passBack(p *parser, kind websocket.MessageType, text []byte) error {
	l.touch()
	var told happened
	if kind == websocket.MessageText {
		doc, err := p.parse(text)
		if known := new(schema.Error); errors.As(err, &known) {
			return known
		}
		if err == nil {
			root := doc.Root()
			told = l.note(root, text)
			if model := root.Get("session").Get("model"); model.Kind() == jsonscan.String {
				if err := p.takesFrom(len(text)); err != nil {
					return err
				}
				text = slices.Concat(doc.Splice(nil,
					[]jsonscan.Edit{model.Replace(jsonwrite.AppendText(nil, l.model))})...)
			}
		}
	}
	_ = write(l.ctx, l.conn, kind, text) // whether the client is there its own reader knows
	l.follow(told)
	return nil
}

// happened is the news about a response in a message of the backend.
type happened struct {
	id      string
	hasDone bool
	// refusal is the reason why the response may not be made.
	refusal error
}

// transcript begins the types of events about the transcript of speech.
const transcript = "conversation.item.input_audio_transcription."

// isResponse reports whether the transcript that an event is about counts as a response.
// Sessions that talk have transcripts beside their responses.
func (l *relay) isResponse(kind string) bool {
	return l.isTranscription || !strings.HasPrefix(kind, transcript)
}

// note notes the news in a message of the backend.
func (l *relay) note(root jsonscan.Value, text []byte) (told happened) {
	kind := string(root.Get("type").Text())
	if strings.HasPrefix(kind, "response.") {
		id := root.Get("response_id")
		if !id.Given() {
			id = root.Get("response").Get("id")
		}
		l.hear(idIn(id))
	}
	switch kind {
	case "session.created", "session.updated":
		l.mu.Lock()
		defer l.mu.Unlock()
		l.talk.set(root.Get("session"))
	case "input_audio_buffer.committed":
		l.mu.Lock()
		defer l.mu.Unlock()
		l.talk.addSound()
	case "response.created":
		told.id = idIn(root.Get("response").Get("id"))
		told.refusal = l.begin(told.id, true)
	case "response.done":
		response := root.Get("response")
		told.id, told.hasDone = idIn(response.Get("id")), true
		told.refusal = l.done(told.id, response, false)
	case "transcription.delta", transcript + "delta":
		if l.isResponse(kind) {
			told.id, told.refusal = l.heardTranscript(root, text)
		}
	case "transcription.done", transcript + "completed", transcript + "failed":
		if told.hasDone = l.isResponse(kind); told.hasDone {
			told.id = idIn(root.Get("item_id"))
			told.refusal = l.done(told.id, root, true)
		}
	case "error":
		l.notBegun(string(root.Get("error").Get("event_id").Text()))
	default:
		if strings.HasSuffix(kind, ".delta") {
			l.measure(idIn(root.Get("response_id")), text)
		}
	}
	return told
}

// heardTranscript notes a piece of a transcript that counts as a response. The first one begins it.
func (l *relay) heardTranscript(root jsonscan.Value, text []byte) (id string, refusal error) {
	id = idIn(root.Get("item_id"))
	l.mu.Lock()
	isRepeated := l.isRepeated(id)
	l.mu.Unlock()
	if isRepeated {
		return id, nil
	}
	refusal = l.begin(id, false)
	l.hear(id)
	l.measure(id, text)
	return id, refusal
}

// idIn returns an id that a backend gave, cut to the length that is compared.
func idIn(v jsonscan.Value) string {
	id := v.Text()
	return string(id[:min(len(id), longestID)])
}

// follow acts on a message of the backend, once the client has it: a response that the
// limits do not allow ends, and the connection with it; after one that has ended there may
// be another.
func (l *relay) follow(told happened) {
	err := told.refusal
	switch {
	case err != nil && !told.hasDone:
		_ = l.sendBackend(cancelOf(told.id)) // the backend may be gone
	case err == nil && told.hasDone && !l.isEnded():
		err = l.keepSpare(l.ctx)
	}
	if err != nil {
		l.sendError("", err)
		l.end(websocket.StatusPolicyViolation, codeOf(err))
	}
}

// backendEnded ends the client's connection as the backend ended its own.
func (l *relay) backendEnded(err error) error {
	var known *schema.Error
	if errors.As(err, &known) { // there is no memory
		l.sendError("", known)
		l.end(websocket.StatusTryAgainLater, "there is no memory for a message of the backend")
		return nil
	}
	l.mu.Lock()
	isOurs := l.farewell != nil || l.ctx.Err() != nil
	l.isLost, l.hasLeft = true, !isOurs
	l.mu.Unlock()
	l.hush() // nobody waits for it any more
	if isOurs {
		return nil
	}
	var closed websocket.CloseError
	if errors.As(err, &closed) {
		l.end(closed.Code, closed.Reason)
		return nil
	}
	l.sendError("", schema.NewError(schema.CodeUpstreamTruncated, say.New("call.broke")))
	l.end(websocket.StatusInternalError, "the connection to the backend broke")
	return err
}
