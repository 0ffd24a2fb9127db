package socket

import (
	"errors"
	"slices"
	"strings"

	"github.com/coder/websocket"

	"github.com/patchbay-ai/patchbay/internal/request/jsonscan"
	"github.com/patchbay-ai/patchbay/internal/request/jsonwrite"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
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
	if told.isCut {
		return nil
	}
	if told.refusal != nil {
		l.sendError("", told.refusal)
	}
	_ = write(l.ctx, l.conn, kind, text) // the reader of the client notices if the client is gone
	if told.isLast {
		l.end(websocket.StatusPolicyViolation, codeOf(told.refusal))
	}
	return nil
}

// happened is the news about a response in a message of the backend.
type happened struct {
	// refusal is why the response ends or is not made, nil for none. isLast reports whether the
	// connection ends, too.
	refusal error
	isLast  bool
	// isCut reports whether the message is a part of a response that must end, which the client
	// does not get.
	isCut bool
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
		told.isCut = l.hear(idIn(id)) && kind != "response.done"
	}
	switch kind {
	case "session.created", "session.updated":
		l.mu.Lock()
		defer l.mu.Unlock()
		l.talk.Set(root.Get("session"))
	case "input_audio_buffer.speech_started": // the speech goes on before the response began
		l.takeExpected().giveBack()
	case "input_audio_buffer.committed":
		told.refusal = l.expect()
		told.isLast = told.refusal != nil
	case "response.created":
		told.refusal = l.begin(idIn(root.Get("response").Get("id")), true)
		told.isLast = told.refusal != nil
	case "response.done":
		response := root.Get("response")
		return l.done(idIn(response.Get("id")), response, false)
	case "transcription.delta", transcript + "delta":
		if l.isResponse(kind) {
			return l.heardTranscript(root, text)
		}
	case "transcription.done", transcript + "completed", transcript + "failed":
		if l.isResponse(kind) {
			return l.done(idIn(root.Get("item_id")), root, true)
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
func (l *relay) heardTranscript(root jsonscan.Value, text []byte) (told happened) {
	id := idIn(root.Get("item_id"))
	l.mu.Lock()
	isRepeated := l.isRepeated(id)
	l.mu.Unlock()
	if isRepeated {
		return told
	}
	if err := l.begin(id, false); err != nil {
		return happened{refusal: err, isLast: true}
	}
	told.isCut = l.hear(id)
	l.measure(id, text)
	return told
}

// idIn returns an id that a backend gave, cut to the length that is compared.
func idIn(v jsonscan.Value) string {
	id := v.Text()
	return string(id[:min(len(id), longestID)])
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
	l.endTurns()
	var closed websocket.CloseError
	if errors.As(err, &closed) {
		l.end(closed.Code, closed.Reason)
		return nil
	}
	l.sendError("", schema.CodedError(schema.CodeUpstreamTruncated, "call.broke"))
	l.end(websocket.StatusInternalError, "the connection to the backend broke")
	return err
}
