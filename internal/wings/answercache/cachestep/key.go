package cachestep

import (
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
		w.head('t', len(r.Caller.Tenant))
		w.buf = append(w.buf, r.Caller.Tenant...)
	} else {
		w.head('k', len(r.Caller.KeyID))
		w.buf = append(w.buf, r.Caller.KeyID...)
	}
	if r.Asks.PathModel != "" { // under which the answer names the model
		w.head('p', len(r.Asks.PathModel))
		w.buf = append(w.buf, r.Asks.PathModel...)
	}
	if r.Asks.Stream && r.Asks.Door == schema.DoorGemini {
		w.head('s', 0) // which the body does not say
	}
	w.head(byte(r.Asks.Door), len(r.Model))
	w.buf = append(w.buf, r.Model...)
	pool := r.Pool.Fingerprint()
	w.buf = append(w.buf, pool[:]...)
	if r.Asks.Header != nil {
		for _, name := range passedHeaders {
			for _, value := range r.Asks.Header[name] {
				w.head(name[len(name)-1], len(value))
				w.bytes([]byte(value))
			}
		}
		w.head('q', len(r.Asks.Query))
		w.bytes([]byte(r.Asks.Query))
	}
	w.value(r.Asks.Body.Root())
	w.flush()
	w.hash.Sum(key[:0])
	return key
}

// keyBuffer is how much is hashed at a time.
const keyBuffer = 2 << 10

func newKeyWriter() any { return &keyWriter{hash: sha256.New(), buf: make([]byte, 0, 2*keyBuffer)} }

// keyWriter writes the input of the hash.
type keyWriter struct {
	hash hash.Hash
	buf  []byte
}

func (w *keyWriter) flush() {
	_, _ = w.hash.Write(w.buf) // it never fails
	w.buf = w.buf[:0]
}

func (w *keyWriter) bytes(p []byte) {
	if len(p) > keyBuffer {
		w.flush()
		_, _ = w.hash.Write(p)
		return
	}
	w.buf = append(w.buf, p...)
	if len(w.buf) > keyBuffer {
		w.flush()
	}
}

// head writes the kind and the length of the next value, which marks its end whatever it
// contains.
func (w *keyWriter) head(kind byte, length int) {
	w.buf = append(w.buf, kind)
	w.buf = binary.BigEndian.AppendUint64(w.buf, uint64(length))
}

// value writes a JSON value in canonical form: without spaces between its parts, and the
// members of objects in the order of their names. Texts and numbers stay as they are:
// values that differ in more than their spelling never get the same key. Parts below the
// recorded depth of a request, such as the parts of a message, are scanned again.
func (w *keyWriter) value(v jsonscan.Value) {
	if len(w.buf) > keyBuffer {
		w.flush()
	}
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
			key := m.Key()
			w.head('n', len(key))
			w.bytes(key)
			w.value(m)
		}
	case jsonscan.Array:
		w.buf = append(w.buf, '[')
		for e := v.First(); e.Kind() != jsonscan.Absent; e = e.Next() {
			w.value(e)
		}
		w.buf = append(w.buf, ']')
	default:
		raw := v.Raw()
		w.head('v', len(raw))
		w.bytes(raw)
	}
}
