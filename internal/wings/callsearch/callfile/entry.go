package callfile

import (
	"encoding/hex"
	"errors"
	"fmt"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/patchbay-ai/patchbay/internal/plain/say"
	"github.com/patchbay-ai/patchbay/internal/request/prices"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
	"github.com/patchbay-ai/patchbay/internal/see/calls"
	"github.com/patchbay-ai/patchbay/internal/see/metrics"
)

// entry is a call as a line of the file: its record, and the attempts that the record describes.
type entry struct {
	*calls.Record
	Tries []calls.Try `json:"tries,omitzero"`
}

// tokens are the usage of a call, which is left out where nobody knows it.
type tokens struct {
	Prompt     int64 `json:"in"`
	Completion int64 `json:"out"`
	Total      int64 `json:"total"`
	Cached     int64 `json:"cached,omitzero"`
}

// contentsEntry is a line with the captured parts of a call.
type contentsEntry struct {
	Number uint64 `json:"n"`
	*calls.Captured
}

// contents are a body.
type contents struct {
	Type  string `json:"type,omitzero"`
	Bytes int64  `json:"bytes"`
	Text  string `json:"text,omitzero"`
	IsCut bool   `json:"cut,omitzero"`
}

// form holds the options for writing and reading values. Times and durations are
// microseconds. Values that have names are written by name, for other releases to read; an
// unknown name is read as the first value, and an unknown member is skipped.
type form struct{ write, read json.Options }

func newForm() form {
	return form{
		json.JoinOptions(jsontext.AllowInvalidUTF8(true), json.WithMarshalers(json.JoinMarshalers(
			number(time.Duration.Microseconds), number(time.Time.UnixMicro),
			number(func(cost prices.Amount) int64 { return int64(cost) }),
			json.MarshalToFunc(func(to *jsontext.Encoder, u schema.Usage) error {
				return json.MarshalEncode(to, tokens{u.Prompt, u.Completion, u.Total, u.Cached})
			}),
			json.MarshalToFunc(func(to *jsontext.Encoder, c *calls.Content) error {
				return json.MarshalEncode(to, contents{c.Type, c.Bytes, c.String(), c.IsCut})
			}),
			json.MarshalToFunc(func(to *jsontext.Encoder, value fmt.Stringer) error {
				switch value.(type) {
				case say.Sentence, *say.Sentence: // by its code and values
					return errors.ErrUnsupported
				}
				return to.WriteToken(jsontext.String(value.String()))
			}),
			text(func(id calls.TraceID) string { return hex.EncodeToString(id[:]) }),
		))),
		json.WithUnmarshalers(json.JoinUnmarshalers(
			read(func(to *time.Duration, n int64) { *to = time.Duration(n) * time.Microsecond }),
			read(func(to *time.Time, n int64) { *to = time.UnixMicro(n) }),
			read(func(to *prices.Amount, n int64) { *to = prices.Amount(n) }),
			read(func(to *schema.Usage, t tokens) {
				*to = schema.Usage{Known: true, Prompt: t.Prompt, Completion: t.Completion, Total: t.Total,
					Cached: t.Cached}
			}),
			read(func(to *calls.TraceID, digits string) {
				_, _ = hex.Decode(to[:], []byte(digits)[:min(len(digits), 2*len(to))])
			}),
			read(func(to *calls.Candidates, counts []uint16) { copy(to[:], counts) }),
			read(func(to *calls.Content, c contents) {
				*to = calls.Content{Type: c.Type, Bytes: c.Bytes, Text: []byte(c.Text), IsCut: c.IsCut}
			}),
			named[schema.ServiceType](schema.ServiceTypeCount), named[schema.Door](schema.DoorCount),
			named[schema.Result](schema.ResultCount), named[schema.Class](schema.ClassCount),
			named[metrics.Cached](metrics.CachedCount), named[metrics.Hedged](metrics.HedgedCount),
		)),
	}
}

// number writes values as numbers.
func number[T any](of func(T) int64) *json.Marshalers {
	return json.MarshalToFunc(func(to *jsontext.Encoder,
		value T) error {
		return to.WriteToken(jsontext.Int(of(value)))
	})
}

// text writes values as texts.
func text[T any](of func(T) string) *json.Marshalers {
	return json.MarshalToFunc(func(to *jsontext.Encoder,
		value T) error {
		return to.WriteToken(jsontext.String(of(value)))
	})
}

// read reads values from another type.
func read[T, From any](set func(*T, From)) *json.Unmarshalers {
	return json.UnmarshalFromFunc(func(from *jsontext.Decoder, to *T) error {
		var value From
		if err := json.UnmarshalDecode(from, &value); err != nil {
			return err
		}
		set(to, value)
		return nil
	})
}

// named reads the value of a name among the first count.
func named[T interface {
	~uint8
	String() string
}](count int) *json.Unmarshalers {
	return read(func(to *T, name string) {
		for n := range count {
			if T(n).String() == name {
				*to = T(n)
			}
		}
	})
}

// appendRecord appends the line of a record.
func (f form) appendRecord(to []byte, c *calls.Record) ([]byte, error) {
	if !c.Usage.Known {
		c.Usage = schema.Usage{}
	}
	line, err := json.Marshal(entry{c, c.Described()}, f.write)
	if err != nil {
		return to, fmt.Errorf("a call cannot be written: %w", err)
	}
	return append(append(to, line...), '\n'), nil
}

// readRecord reads the line of a record.
func (f form) readRecord(line []byte) (*calls.Record, error) {
	e := entry{Record: &calls.Record{Unified: true}}
	if err := json.Unmarshal(line, &e, f.read); err != nil {
		return nil, err
	}
	e.Restore(max(e.Attempts, len(e.Tries)), e.Tries)
	return e.Record, nil
}

// appendContents appends the line with the captured parts of a call, if there are any.
func (f form) appendContents(to []byte, c *calls.Record) ([]byte, error) {
	if c.Captured == nil {
		return to, nil
	}
	line, err := json.Marshal(contentsEntry{c.Sequence, c.Captured}, f.write)
	if err != nil {
		return to, fmt.Errorf("the contents of a call cannot be written: %w", err)
	}
	return append(append(to, line...), '\n'), nil
}

// readCaptured reads the line with the captured parts of a call, and the number of the
// call.
func (f form) readCaptured(line []byte) (of uint64, _ *calls.Captured, err error) {
	e := contentsEntry{Captured: new(calls.Captured)}
	err = json.Unmarshal(line, &e, f.read)
	return e.Number, e.Captured, err
}
