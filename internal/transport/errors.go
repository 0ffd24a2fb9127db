package transport

import (
	"context"
	"errors"
	"io"
	"os"
)

// Classes of errors, for errors.Is. A call whose context ended fails with the
// context's error and cause instead, whatever else broke.
var (
	// ErrConnect: no connection came about (name, network, TLS); nothing of the
	// call was sent.
	ErrConnect error = &class{text: "no connection"}
	// ErrReset: an established connection broke before the reply was complete.
	ErrReset error = &class{text: "connection broken"}
	// ErrTimeout: one of the limits of the call ran out. The five below say which.
	ErrTimeout error = &class{text: "timeout"}
	// ErrProtocol: the reply is not valid HTTP/1.1, or exceeds a limit.
	ErrProtocol error = &class{text: "protocol error"}

	// ErrConnectTimeout is both an ErrConnect and an ErrTimeout.
	ErrConnectTimeout error = &class{text: "connect timeout", parents: []error{ErrConnect, ErrTimeout}}
	// ErrWriteTimeout: the backend stopped taking the request.
	ErrWriteTimeout error = &class{text: "write timeout", parents: []error{ErrTimeout}}
	// ErrFirstByteTimeout: the head of the reply did not arrive in time.
	ErrFirstByteTimeout error = &class{text: "first byte timeout", parents: []error{ErrTimeout}}
	// ErrIdleTimeout: the backend fell silent within the body.
	ErrIdleTimeout error = &class{text: "idle timeout", parents: []error{ErrTimeout}}
	// ErrDeadline: the deadline given to Response.SetDeadline passed.
	ErrDeadline error = &class{text: "deadline passed", parents: []error{ErrTimeout}}

	// ErrInvalidCall is the ErrProtocol that is our own fault: the call cannot
	// be written as HTTP/1.1, or its upload could not be read. No whole request
	// was sent and no backend is to blame.
	ErrInvalidCall error = &class{text: "invalid call", parents: []error{ErrProtocol}}
)

// class is a comparable error that may belong to wider classes.
type class struct {
	text    string
	parents []error
}

func (c *class) Error() string   { return c.text }
func (c *class) Unwrap() []error { return c.parents }

// stepConnect is the step before anything was sent.
const stepConnect = "connect"

// Error tells in which step a call broke. Its text holds the address and the
// cause, never header values or bodies.
type Error struct {
	Step  string // "connect", "write", "read head" or "read body"
	Addr  string // host:port of the backend
	class error
	cause error
}

func (e *Error) Error() string {
	text := e.Step + " " + e.Addr + ": " + e.class.Error()
	if e.cause == nil || e.cause == e.class {
		return text
	}
	return text + ": " + e.cause.Error()
}

// Unwrap returns the class and the cause.
func (e *Error) Unwrap() []error {
	if e.cause == nil {
		return []error{e.class}
	}
	return []error{e.class, e.cause}
}

// Unsent reports whether a call failed before a whole request had left, so that no backend
// has worked on it: there was no connection, or the call could not be written.
func Unsent(err error) bool {
	broken, isOurs := errors.AsType[*Error](err)
	return isOurs && (broken.Step == stepConnect || broken.class == ErrInvalidCall)
}

// flaw is what is wrong with a message; the texts are constants so that no
// byte of the message can reach an error.
type flaw string

func (f flaw) Error() string { return string(f) }

// The flaws of a head that may be HTTP and exceeds a limit.
const (
	errHeadTooLong   flaw = "head too long"
	errTooManyFields flaw = "too many fields"
)

// sourceError says that an upload gave less than its length. The text of the
// cause is left out: it may name files.
type sourceError struct{ cause error }

func (*sourceError) Error() string   { return "upload ended early" }
func (e *sourceError) Unwrap() error { return e.cause }

// ended is the error of a call whose context is done.
func ended(ctx context.Context, step, addr string) error {
	return &Error{Step: step, Addr: addr, class: ctx.Err(), cause: context.Cause(ctx)}
}

// wrapError turns an error of the wire into an Error; timeout is the class to
// use when a deadline of ours ran out.
func wrapError(ctx context.Context, step, addr string, err, timeout error) error {
	if ctx.Err() != nil {
		return ended(ctx, step, addr)
	}
	if f, ok := errors.AsType[flaw](err); ok {
		return &Error{Step: step, Addr: addr, class: ErrProtocol, cause: f}
	}
	if s, ok := errors.AsType[*sourceError](err); ok {
		return &Error{Step: step, Addr: addr, class: ErrInvalidCall, cause: s}
	}
	if expired(err) {
		return &Error{Step: step, Addr: addr, class: timeout}
	}
	return &Error{Step: step, Addr: addr, class: ErrReset, cause: unexpectedEOF(err)}
}

// expired reports whether a deadline that was set here has passed. The kernel's own
// ETIMEDOUT, which means that the peer is dead, is none.
func expired(err error) bool { return errors.Is(err, os.ErrDeadlineExceeded) }

// unexpectedEOF replaces io.EOF by io.ErrUnexpectedEOF.
func unexpectedEOF(err error) error {
	if err == io.EOF {
		return io.ErrUnexpectedEOF
	}
	return err
}
