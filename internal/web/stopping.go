package web

import "errors"

// ErrStopping is the cause with which the contexts of requests end that still run when
// the time for a shutdown is over.
var ErrStopping = errors.New("the gateway is shutting down")
