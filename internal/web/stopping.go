package web

import "errors"

// ErrStopping is the cause with which requests end that are still running when
// the time for a shutdown is up.
var ErrStopping = errors.New("the gateway is shutting down")
