// Package tryout finds out whether a model answers, by one small real call.
package tryout

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"image"
	"image/png"
	"io"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/patchbay-ai/patchbay/internal/access"
	"github.com/patchbay-ai/patchbay/internal/plain/say"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
	"github.com/patchbay-ai/patchbay/internal/route/proxy"
	"github.com/patchbay-ai/patchbay/internal/see/calls"
	"github.com/patchbay-ai/patchbay/internal/serve/web"
)

// maxTime bounds the time of a call.
const maxTime = time.Minute

// ErrModel means that no request can name the model.
var ErrModel = errors.New("no request can name this model")

// Result is the outcome of an instance's test.
type Result struct {
	OK            bool           `json:"ok"`
	HTTPStatus    int            `json:"httpStatus,omitzero" doc:"Of the backend's answer, if there was one."`
	DurationMs    float64        `json:"durationMs"`
	FirstTokenMs  *float64       `json:"firstTokenMs,omitzero" doc:"Of a stream of chat."`
	HeldMs        float64        `json:"heldMs,omitzero" doc:"The wait for the model, unless it was in memory."`
	Reply         string         `json:"reply,omitzero" doc:"What the backend answered, in a few words."`
	ErrorCode     string         `json:"errorCode,omitzero"`
	Cause         string         `json:"cause,omitzero" doc:"Why the backend could not be reached."`
	URL           string         `json:"url,omitzero" doc:"Where a call that failed was sent."`
	UpstreamError string         `json:"upstreamError,omitzero" doc:"What is wrong, in the backend's words if any."`
	Said          []say.Sentence `json:"said,omitzero" doc:"The same as codes and values."`
}

// Call makes a small call of a service type to a model. The error is the error of the
// context, or ErrModel.
func Call(ctx context.Context, through *proxy.Proxy, serviceType schema.ServiceType, model string) (Result, error) {
	result, said, err := call(ctx, through, serviceType, model)
	result.UpstreamError, result.Said = said.String(), say.All(said)
	return result, err
}

// NotLoaded returns the result where the model could not be loaded and no call was made.
// The error is the error of the context.
func NotLoaded(ctx context.Context, why *schema.Error, held time.Duration) (Result, error) {
	result := Result{ErrorCode: why.Code, UpstreamError: why.Message, Said: say.All(why.Said)}
	result.SetHeld(held)
	return result, ctx.Err()
}

// leastHeld is the shortest wait that is reported: a call does not wait for a model in
// memory.
const leastHeld = time.Millisecond

// SetHeld sets how long the model was waited for.
func (r *Result) SetHeld(held time.Duration) {
	if held >= leastHeld {
		r.HeldMs = inMilliseconds(held)
	}
}

// call makes the call, and returns what is wrong beside the result.
func call(ctx context.Context, through *proxy.Proxy, serviceType schema.ServiceType,
	model string) (result Result, said say.Sentence, err error) {
	request, err := smallRequest(serviceType, model)
	if err != nil {
		return result, said, fmt.Errorf("%w: %w", ErrModel, err)
	}
	ctx, cancel := context.WithTimeout(ctx, maxTime)
	defer cancel()
	started := time.Now()
	record := calls.Record{Started: started, Service: serviceType}
	answer := new(answerStart)
	err = through.Do(ctx, &proxy.Request{Asks: request, Caller: &access.Caller{RequestID: "test"}, Record: &record},
		answer)
	result.DurationMs = inMilliseconds(time.Since(started))
	var try calls.Try
	if record.Attempts > 0 {
		try = *record.Try()
	}
	result.HTTPStatus, result.Cause, result.URL = try.Status, try.Cause, try.URL
	var known *schema.Error
	switch {
	case ctx.Err() != nil && !errors.Is(ctx.Err(), context.DeadlineExceeded):
		return result, said, ctx.Err()
	case ctx.Err() != nil:
		result.ErrorCode = schema.CodeUpstreamTimeout
		return result, say.New("call.timeout_test", "time", maxTime), nil
	case errors.As(err, &known):
		result.ErrorCode = known.Code
		return result, known.Said, nil
	case err != nil, record.Code != "" && !answer.enough:
		result.ErrorCode = record.Code
		if try.Said != nil {
			return result, *try.Said, nil
		}
		return result, say.New("call.broke_off"), nil
	}
	result.OK, result.Reply = true, answer.excerpt(serviceType)
	if answer.head.Events && record.FirstToken > 0 {
		first := inMilliseconds(record.FirstToken)
		result.FirstTokenMs = &first
	}
	return result, said, nil
}

func inMilliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

const (
	// maxBody is the number of bytes that are kept of an answer.
	maxBody = 1 << 20
	// maxEvents is after how many events a stream is left: the model works.
	maxEvents = 32
)

// errEnough ends a stream after enough of it was seen.
var errEnough = errors.New("enough was seen")

// answerStart keeps the beginning of an answer.
type answerStart struct {
	head   proxy.Head
	body   []byte
	length int
	events int
	enough bool
}

// Route does nothing: the caller knows where the request went.
func (t *answerStart) Route(proxy.Route) {}

// Head keeps the head.
func (t *answerStart) Head(head proxy.Head) { t.head = head }

// Write keeps the beginning of the body.
func (t *answerStart) Write(p []byte) (int, error) {
	t.length += len(p)
	if room := maxBody - len(t.body); room > 0 {
		t.body = append(t.body, p[:min(room, len(p))]...)
	}
	if t.head.Events {
		if t.events += bytes.Count(p, []byte("\n\n")); t.events >= maxEvents {
			t.enough = true
			return 0, errEnough
		}
	}
	return len(p), nil
}

// Send is Write.
func (t *answerStart) Send(p []byte) error {
	_, err := t.Write(p)
	return err
}

// excerpt quotes the answer in a few words.
func (t *answerStart) excerpt(serviceType schema.ServiceType) string {
	const longest = 200
	if t.head.Events {
		return web.CutText(t.streamed(), longest)
	}
	var reply struct {
		Text    string `json:"text"`
		Choices []struct {
			Message struct {
				Content string `json:"content"`
			} `json:"message"`
		} `json:"choices"`
		Data []struct {
			Embedding jsontext.Value `json:"embedding"`
		} `json:"data"`
		Results []jsontext.Value `json:"results"`
	}
	isJSON := strings.HasPrefix(t.head.ContentType, proxy.TypeJSON) &&
		json.Unmarshal(t.body, &reply, jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true)) == nil
	switch {
	case !isJSON:
		return fmt.Sprintf("%s, %d bytes", t.head.ContentType, t.length)
	case serviceType == schema.Chat && len(reply.Choices) > 0:
		return web.CutText(reply.Choices[0].Message.Content, longest)
	case serviceType == schema.Embedding && len(reply.Data) > 0:
		var vector []float64
		if json.Unmarshal(reply.Data[0].Embedding, &vector) == nil {
			return fmt.Sprintf("a vector of %d numbers", len(vector))
		}
	case serviceType == schema.Rerank:
		return fmt.Sprintf("%d results", len(reply.Results))
	case serviceType == schema.STT:
		return web.CutText(reply.Text, longest)
	case len(reply.Data) > 0:
		return fmt.Sprintf("%d image", len(reply.Data))
	}
	return fmt.Sprintf("%d bytes", t.length)
}

// streamed joins the texts in the events of a chat stream.
func (t *answerStart) streamed() string {
	var text strings.Builder
	for line := range bytes.Lines(t.body) {
		data, isData := bytes.CutPrefix(bytes.TrimSpace(line), []byte("data: "))
		var chunk struct {
			Choices []struct {
				Delta struct {
					Content   string `json:"content"`
					Reasoning string `json:"reasoning_content"`
				} `json:"delta"`
			} `json:"choices"`
		}
		if isData &&
			json.Unmarshal(data, &chunk, jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true)) == nil &&
			len(chunk.Choices) > 0 {
			text.WriteString(chunk.Choices[0].Delta.Content)
			text.WriteString(chunk.Choices[0].Delta.Reasoning)
		}
	}
	return text.String()
}

// smallRequest makes the smallest sensible request of a service type. It has no optional
// settings, because some backends do not know them.
func smallRequest(serviceType schema.ServiceType, model string) (*schema.Request, error) {
	request := new(schema.Request)
	body := func(members map[string]any) []byte {
		members["model"] = model
		// texts and lists can be encoded
		text, _ := json.Marshal(members, json.Deterministic(true), jsontext.AllowInvalidUTF8(true))
		return text
	}
	form := func(file schema.Part, more ...schema.Part) *schema.Form {
		return &schema.Form{Parts: append([]schema.Part{{Name: "model", Value: model}, file}, more...)}
	}
	switch serviceType {
	case schema.Chat:
		return request,
			request.ParseChat(body(map[string]any{"messages": []any{map[string]any{"role": "user", "content": "ping"}},
				"stream": true}))
	case schema.Embedding:
		return request, request.ParseEmbedding(body(map[string]any{"input": "ping"}))
	case schema.Rerank:
		return request, request.ParseRerank(body(map[string]any{"query": "ping", "documents": []any{"ping", "pong"}}))
	case schema.TTS:
		return request, request.ParseSpeech(body(map[string]any{"input": "ping", "voice": "alloy"}))
	case schema.ImgGen:
		return request, request.ParseImage(body(map[string]any{"prompt": "a dot"}))
	case schema.STT:
		return request, request.ParseTranscription(form(filePart("file", "silence.wav", "audio/wav", silence())))
	default:
		return request,
			request.ParseImageEdit(form(filePart("image", "blank.png", "image/png", blankImage()),
				schema.Part{Name: "prompt", Value: "a dot"}))
	}
}

func filePart(name, filename, contentType string, content []byte) schema.Part {
	return schema.Part{Name: name, File: &schema.File{
		Filename: filename, ContentType: contentType, Size: int64(len(content)),
		Open: func() io.Reader { return bytes.NewReader(content) },
	}}
}

// silence returns half a second of it: 16-bit samples at 8 kHz in a WAV file.
func silence() []byte {
	const rate, samples = 8000, 4000
	le := binary.LittleEndian
	b := append([]byte("RIFF"), le.AppendUint32(nil, 36+2*samples)...)
	b = append(b, "WAVEfmt "...)
	b = le.AppendUint32(b, 16)
	b = le.AppendUint16(b, 1) // plain samples
	b = le.AppendUint16(b, 1) // one channel
	b = le.AppendUint32(b, rate)
	b = le.AppendUint32(b, 2*rate)
	b = le.AppendUint16(b, 2)
	b = le.AppendUint16(b, 16)
	b = append(b, "data"...)
	b = le.AppendUint32(b, 2*samples)
	return append(b, make([]byte, 2*samples)...)
}

// blankImage returns a white square.
func blankImage() []byte {
	const side = 256
	picture := image.NewNRGBA(image.Rect(0, 0, side, side))
	for i := range picture.Pix {
		picture.Pix[i] = 0xff
	}
	var out bytes.Buffer
	_ = png.Encode(&out, picture) // writing to memory does not fail
	return out.Bytes()
}
