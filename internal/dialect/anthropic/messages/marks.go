package messages

import (
	"bytes"
	"encoding/base64"
)

// Backends of other dialects want some data back in the next turn, such as Gemini's thought
// signatures. This dialect has no place of its own for them. They go to the client in members that
// clients send back unchanged, in a form that names its kind. Nothing has to be remembered here.

const (
	// markedCall begins the id of a tool call that also has a signature, or an id
	// with characters that this dialect does not allow.
	markedCall = "toolu_pb1_"
	// markedThinking begins the signature of thinking that was not signed by a backend
	// of this dialect. Nothing follows it, or signedMark and a signature.
	markedThinking = "pb1."
	// signedMark keeps a signature apart from any other form that may follow
	// markedThinking one day; the g is for Gemini, which makes these signatures.
	signedMark = "g."
)

// markCall returns the id under which the client gets a tool call.
func markCall(id, signature []byte) []byte {
	if len(signature) == 0 && isPlainID(id) && !bytes.HasPrefix(id, []byte(markedCall)) {
		return id
	}
	payload := append(append(bytes.Clone(id), 0), signature...)
	return base64.RawURLEncoding.AppendEncode([]byte(markedCall), payload)
}

// unmarkCall returns the arguments that markCall was given.
func unmarkCall(marked []byte) (id, signature []byte) {
	text, ok := bytes.CutPrefix(marked, []byte(markedCall))
	if !ok {
		return marked, nil
	}
	payload, err := base64.RawURLEncoding.AppendDecode(nil, text)
	if err != nil {
		return marked, nil
	}
	id, signature, ok = bytes.Cut(payload, []byte{0})
	if !ok {
		return marked, nil
	}
	return id, signature
}

// isPlainID reports whether an id has only characters that this dialect allows.
func isPlainID(id []byte) bool {
	for _, c := range id {
		if (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && c != '_' && c != '-' {
			return false
		}
	}
	return len(id) > 0
}

// markThinking returns the signature of the thinking for the client, with the signature
// of the answer, if it has one.
func markThinking(signature []byte) []byte {
	if len(signature) == 0 {
		return []byte(markedThinking)
	}
	return append([]byte(markedThinking+signedMark), signature...)
}

// unmarkThinking returns the signature that markThinking was given. It is not marked
// if a backend of this dialect has signed the thinking.
func unmarkThinking(marked []byte) (signature []byte, isMarked bool) {
	rest, ok := bytes.CutPrefix(marked, []byte(markedThinking))
	if !ok {
		return nil, false
	}
	signature, _ = bytes.CutPrefix(rest, []byte(signedMark))
	return signature, true
}
