package web

import (
	"errors"
	"io"
	"net/http"
	"os"
)

// Errors of ReadBody.
var (
	ErrBodyTooLarge   = errors.New("the body is larger than 1 MiB")
	ErrBodyTooSlow    = errors.New("the body did not arrive in time")
	ErrBodyUnreadable = errors.New("body: could not be read")
)

// maxBody is far more than any configuration that a person writes.
const maxBody = 1 << 20

// ReadBody returns the body of a request to the management API. If it does not read the
// body to its end, the connection is closed after the reply, so that the rest is not
// taken for another request.
func ReadBody(w http.ResponseWriter, r *http.Request) ([]byte, error) {
	if r.ContentLength > maxBody {
		w.Header().Set("Connection", "close")
		return nil, ErrBodyTooLarge
	}
	body, err := io.ReadAll(io.LimitReader(r.Body, maxBody+1))
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded):
		w.Header().Set("Connection", "close")
		return nil, ErrBodyTooSlow
	case err != nil:
		return nil, ErrBodyUnreadable
	case len(body) > maxBody:
		w.Header().Set("Connection", "close")
		return nil, ErrBodyTooLarge
	}
	return body, nil
}

// BodyStatus returns the status of an error of ReadBody, and false for any other
// error.
func BodyStatus(err error) (status int, ok bool) {
	switch {
	case errors.Is(err, ErrBodyTooLarge):
		return http.StatusRequestEntityTooLarge, true
	case errors.Is(err, ErrBodyTooSlow):
		return http.StatusRequestTimeout, true
	case errors.Is(err, ErrBodyUnreadable):
		return http.StatusBadRequest, true
	}
	return 0, false
}
