package simulator

import (
	"net/http"
	"strings"
)

// dialect gives the code around a service the ways of the service's API.
type dialect interface {
	// errorBody returns the body of an error.
	errorBody(status int, problem apiError) []byte
	// errorEvent returns an error for the middle of a stream, with its framing.
	errorEvent(message string) []byte
	// key returns the credential that a request presents. Where requests are signed, it
	// is the backend's key if that key made the signature.
	key(x *exchange) string
}

func bearer(r *http.Request) string {
	return strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
}
