package cachestep

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"hash"
	"slices"

	"github.com/patchbay-ai/patchbay/internal/request/jsonscan"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
	"github.com/patchbay-ai/patchbay/internal/route/account"
	"github.com/patchbay-ai/patchbay/internal/wings/answercache"
)

// isDeterministic reports whether a backend gives the same answer each time, as far as a
// request can tell.
func isDeterministic(r *account.Account) bool {
	switch r.Asks.Door {
	case schema.DoorEmbeddings, schema.DoorRerank, schema.DoorOllamaEmbed, schema.DoorOllamaEmbeddings,
		schema.DoorGeminiEmbed, schema.DoorGeminiBatchEmbed:
		return true
	case schema.DoorGemini:
		return isZero(r.Asks.Body.Root().Get("generationConfig").Get("temperature"))
	case schema.DoorOllamaChat, schema.DoorOllamaGenerate:
		return isZero(r.Asks.Body.Root().Get("options").Get("temperature"))
	case schema.DoorChat, schema.DoorCompletions, schema.DoorMessages, schema.DoorResponses:
		return isZero(r.Asks.Body.Root().Get("temperature"))
	}
	return false
}

// isZero reports whether a temperature says that the most probable answer is wanted.
func isZero(temperature jsonscan.Value) bool {
	t, given := temperature.Float()
	return given && t == 0
}

// isSelfContained reports whether the answer depends on nothing but the request, and leaves
// nothing behind: it needs no earlier answers that are kept, nor the caller's own
// credential.
func isSelfContained(r *account.Account) bool {
	if r.Pool == nil || r.IsBarred() {
		return false // another model takes over
	}
	for _, i := range r.Pool.Instances {
		if i.Target.ForwardAuthorization {
			return false
		}
	}
	return r.Asks.IsSelfContained() && len(r.Recalled()) == 0
}

// passedHeaders are the headers of clients that dialects pass on to backends.
var passedHeaders = [...]string{"Anthropic-Version", "Anthropic-Beta"}

// keyOf returns the SHA-256 of everything that the answer to a request depends on, and of
// its owner.
func (c *Cache) keyOf(r *account.Account) (key answercache.Key) {
	w := c.writers.Get().(*keyWriter)
	defer c.writers.Put(w)
	w.hash.Reset()
	// A key that is limited to instances shares no answers that others got from elsewhere.
	if r.Caller.Tenant != "" && !r.Caller.Grant.IsPlaced() {
		w.text('t', r.Caller.Tenant)
	} else {
		w.text('k', r.Caller.KeyID)
	}
	if r.Asks.PathModel != "" { // under which the answer names the model
		w.text('p', r.Asks.PathModel)
	}
	if r.Asks.Stream && r.Asks.Door == schema.DoorGemini {
		w.head('s', 0) // which the body does not say
	}
	w.text(byte(r.Asks.Door), r.Model)
	pool := r.Pool.Fingerprint()
	_, _ = w.Write(pool[:])
	if r.Asks.Header != nil {
		for _, name := range passedHeaders {
			for _, value := range r.Asks.Header[name] {
				w.text(name[len(name)-1], value)
			}
		}
		w.text('q', r.Asks.Query)
	}
	w.value(r.Asks.Body.Root())
	_ = w.Flush()
	w.hash.Sum(key[:0])
	return key
}

// keyBuffer is how much is hashed at a time.
const keyBuffer = 2 << 10

func newKeyWriter() any {
	hash := sha256.New()
	return &keyWriter{bufio.NewWriterSize(hash, keyBuffer), hash}
}

// keyWriter writes the input of the hash. No write fails.
type keyWriter struct {
	*bufio.Writer

	hash hash.Hash
}

// head writes the kind and the length of the next value, which marks its end whatever it
// contains.
func (w *keyWriter) head(kind byte, length int) {
	_, _ = w.Write(binary.BigEndian.AppendUint64(append(w.AvailableBuffer(), kind), uint64(length)))
}

// text writes a text with its kind and length.
func (w *keyWriter) text(kind byte, text string) {
	w.head(kind, len(text))
	_, _ = w.WriteString(text)
}

// bytes writes a text with its kind and length.
func (w *keyWriter) bytes(kind byte, text []byte) {
	w.head(kind, len(text))
	_, _ = w.Write(text)
}

// value writes a JSON value in canonical form: without spaces between its parts, and the
// members of objects in the order of their names. Texts and numbers stay as they are:
// values that differ in more than their spelling never get the same key. Parts below the
// recorded depth of a request, such as the parts of a message, are scanned again.
func (w *keyWriter) value(v jsonscan.Value) {
	if k := v.Kind(); (k == jsonscan.Object || k == jsonscan.Array) && v.First().Kind() == jsonscan.Absent &&
		!v.Empty() {
		deep := jsonscan.Document{Deep: true}
		if deep.Parse(v.Raw()) == nil { // it was scanned before and has no faults
			v = deep.Root()
		}
	}
	switch v.Kind() {
	case jsonscan.Object:
		var few [16]jsonscan.Value
		members := few[:0]
		for m := v.First(); m.Kind() != jsonscan.Absent; m = m.Next() {
			members = append(members, m)
		}
		slices.SortFunc(members, func(a, b jsonscan.Value) int { return bytes.Compare(a.Key(), b.Key()) })
		w.head('{', len(members))
		for _, m := range members {
			w.bytes('n', m.Key())
			w.value(m)
		}
	case jsonscan.Array:
		_ = w.WriteByte('[')
		for e := v.First(); e.Kind() != jsonscan.Absent; e = e.Next() {
			w.value(e)
		}
		_ = w.WriteByte(']')
	default:
		w.bytes('v', v.Raw())
	}
}
