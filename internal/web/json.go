package web

import (
	"net/http"
	"strconv"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/patchbay-ai/patchbay/internal/schema"
)

var contentJSON = []string{"application/json"}

// WriteJSON answers with a value as JSON.
func WriteJSON(w http.ResponseWriter, status int, value any) {
	body, err := Encode(value)
	if err != nil {
		// The gateway made the value, so that this is a bug.
		status = http.StatusInternalServerError
		body = schema.NewError(schema.CodeInternal, "The reply could not be encoded.").Body()
	}
	header := w.Header()
	header["Content-Type"] = contentJSON
	header["Content-Length"] = []string{strconv.Itoa(len(body))}
	w.WriteHeader(status)
	_, _ = w.Write(body) // a client that left does not need it
}

// StreamJSON answers with a value that writes itself piece by piece, so that a
// long reply is never whole in memory.
func StreamJSON(w http.ResponseWriter, value json.MarshalerTo) {
	w.Header()["Content-Type"] = contentJSON
	w.WriteHeader(http.StatusOK)
	// Writing fails if the client has left, which needs no handling.
	_ = json.MarshalWrite(w, value, jsontext.AllowInvalidUTF8(true))
}

// Encode encodes a reply. Invalid UTF-8, which clients can put into a path or a name,
// becomes the replacement character.
func Encode(value any) ([]byte, error) {
	return json.Marshal(value, json.Deterministic(true), jsontext.AllowInvalidUTF8(true))
}
