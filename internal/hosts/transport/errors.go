package transport

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"os"
	"slices"
	"strings"
	"syscall"

	"github.com/patchbay-ai/patchbay/internal/plain/say"
	"github.com/patchbay-ai/patchbay/internal/request/outgoing"
)

// Classes of errors, for errors.Is. When its context has ended, a call fails with
// the context's error and cause instead, whatever else broke.
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

// Error says in which step a call broke. Its text holds the address and the cause,
// never header values or bodies.
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

// Unsent reports whether a call failed before a whole request had left. No backend has
// worked on it then: there was no connection, or the call could not be written.
func Unsent(err error) bool {
	broken, isOurs := errors.AsType[*Error](err)
	return isOurs && (broken.Step == stepConnect || broken.class == ErrInvalidCall)
}

// flaw is a fault in a message. The texts are constants: no byte of the message can
// reach an error.
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

// ended is the error of a call after its context is done.
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

// Cause is one stable word for why a backend could not be reached or did not
// answer. It holds no address and nothing that the backend said, so anybody may
// see it; programs may compare it.
type Cause string

// The causes. Text says each of them in a few words.
const (
	CauseNone             Cause = ""
	CauseRefused          Cause = "connection_refused"
	CauseUnreachable      Cause = "host_unreachable"
	CauseUnknownHost      Cause = "unknown_host"
	CauseNameResolution   Cause = "name_resolution_failed"
	CauseConnectTimeout   Cause = "connect_timeout"
	CauseUnknownAuthority Cause = "unknown_authority"
	CauseExpired          Cause = "certificate_expired"
	CauseWrongName        Cause = "certificate_wrong_name"
	CauseCertificate      Cause = "certificate_invalid"
	CauseNotTLS           Cause = "not_tls"
	CauseTLS              Cause = "tls_failed"
	CauseReset            Cause = "connection_reset"
	CauseClosed           Cause = "connection_closed"
	CauseWriteTimeout     Cause = "write_timeout"
	CauseTimeout          Cause = "response_timeout"
	CauseIdleTimeout      Cause = "idle_timeout"
	CauseNotHTTP          Cause = "not_http"
	CauseHeadTooLarge     Cause = "head_too_large"
	CauseForbidden        Cause = "forbidden_address"
	CauseProxyUnreachable Cause = "proxy_unreachable"
	CauseProxyRefused     Cause = "proxy_refused"
	// CauseProxyAuthentication: the proxy wants other credentials than it was given.
	CauseProxyAuthentication Cause = "proxy_authentication"
	CauseExhausted           Cause = "gateway_exhausted"
	CauseNoConnection        Cause = "no_connection"
	// CauseAsleep: the server answers, but its model could not be woken up.
	CauseAsleep Cause = "wake_failed"
)

// CauseStatus begins the cause of a health check that failed with a status, such as status_500.
const CauseStatus = "status_"

// Said returns the cause as a sentence that fits behind a colon, one that says nothing for
// CauseNone.
func (c Cause) Said() say.Sentence {
	if status, isStatus := strings.CutPrefix(string(c), CauseStatus); isStatus {
		return say.New("cause.status", "status", status)
	}
	if c == CauseNone {
		return say.Sentence{}
	}
	return say.New("cause." + say.Code(c))
}

// Text describes the cause in a few words that fit behind a colon.
func (c Cause) Text() string { return c.Said().String() }

// CauseOf names why a call or a connection failed; CauseNone means that err is
// nil or says nothing about the way to the backend.
func CauseOf(err error) Cause {
	if err == nil || errors.Is(err, context.Canceled) || errors.Is(err, ErrInvalidCall) {
		return CauseNone
	}
	if proxy, ok := errors.AsType[*proxyError](err); ok {
		return proxy.cause
	}
	op, isOp := errors.AsType[*net.OpError](err)
	if isOp && op.Op == "proxyconnect" { // of net/http
		return CauseProxyUnreachable
	}
	dns, isName := errors.AsType[*net.DNSError](err)
	byName := CauseNone
	switch {
	case isName && dns.IsNotFound:
		byName = CauseUnknownHost
	case isName && !dns.IsTimeout:
		byName = CauseNameResolution
	}
	return cmp.Or(certificateCause(err), causeIn(networkCauses, err), byName, timeoutCause(err),
		causeIn(brokenCauses, err), CauseNoConnection)
}

// known are errors with one cause.
type known struct {
	cause Cause
	errs  []error
}

// causeIn returns the cause of the first errors in a table that one is.
func causeIn(table []known, err error) Cause {
	for _, k := range table {
		if isOneOf(err, k.errs) {
			return k.cause
		}
	}
	return CauseNone
}

func isOneOf(err error, known []error) bool {
	return slices.ContainsFunc(known, func(one error) bool { return errors.Is(err, one) })
}

var (
	// unroutable are the errors of unreachable addresses, and exhausted the errors of a
	// machine without the means to connect.
	unroutable = []error{syscall.EHOSTUNREACH, syscall.ENETUNREACH, syscall.EHOSTDOWN}
	exhausted  = []error{syscall.EMFILE, syscall.ENFILE, syscall.ENOBUFS, syscall.ENOMEM, syscall.EADDRNOTAVAIL}

	// networkCauses say why no connection came about, and brokenCauses why one broke.
	networkCauses = []known{
		{CauseForbidden, []error{outgoing.ErrForbidden}},
		{CauseRefused, []error{syscall.ECONNREFUSED}},
		{CauseUnreachable, unroutable},
		{CauseExhausted, exhausted},
	}
	brokenCauses = []known{
		{CauseHeadTooLarge, []error{errHeadTooLong, errTooManyFields}},
		{CauseNotHTTP, []error{ErrProtocol}},
		{CauseReset, []error{syscall.ECONNRESET, syscall.EPIPE, syscall.ECONNABORTED}},
		{CauseClosed, []error{io.ErrUnexpectedEOF, io.EOF}},
		{CauseReset, []error{ErrReset}},
	}
)

// certificateCause names the fault of a TLS handshake.
func certificateCause(err error) Cause {
	if _, ok := errors.AsType[x509.HostnameError](err); ok {
		return CauseWrongName
	}
	if invalid, ok := errors.AsType[x509.CertificateInvalidError](err); ok {
		if invalid.Reason == x509.Expired {
			return CauseExpired
		}
		return CauseCertificate
	}
	_, unknown := errors.AsType[x509.UnknownAuthorityError](err)
	_, noRoots := errors.AsType[x509.SystemRootsError](err)
	if unknown || noRoots {
		return CauseUnknownAuthority
	}
	if _, ok := errors.AsType[*tls.CertificateVerificationError](err); ok {
		return CauseCertificate
	}
	if _, ok := errors.AsType[tls.RecordHeaderError](err); ok {
		return CauseNotTLS
	}
	// Alerts have no exported type; crypto/tls marks them by these operations.
	if op, ok := errors.AsType[*net.OpError](err); ok && (op.Op == "remote error" || op.Op == "local error") {
		return CauseTLS
	}
	return CauseNone
}

// timeoutCause tells the limits apart. The end of the caller's own context counts
// as one: a health check bounds its whole call in this way.
func timeoutCause(err error) Cause {
	broken, isOurs := errors.AsType[*Error](err)
	timeout, isNet := errors.AsType[net.Error](err)
	switch {
	case errors.Is(err, ErrConnectTimeout):
		return CauseConnectTimeout
	case errors.Is(err, ErrWriteTimeout):
		return CauseWriteTimeout
	case errors.Is(err, ErrIdleTimeout):
		return CauseIdleTimeout
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, os.ErrDeadlineExceeded), errors.Is(err, ErrTimeout),
		isNet && timeout.Timeout():
		op, isOp := errors.AsType[*net.OpError](err)
		if isOurs && broken.Step == stepConnect || isOp && op.Op == "dial" {
			return CauseConnectTimeout
		}
		return CauseTimeout
	}
	return CauseNone
}

// IsRefusal reports whether a call failed because nobody is at the address.
// Timeouts are no refusals, as a busy server has them too, and neither is a name or
// a certificate that does not check out.
func IsRefusal(err error) bool {
	return errors.Is(err, syscall.ECONNREFUSED) || isOneOf(err, unroutable)
}

// IsLocal reports whether this machine, not the backend, had no means to connect.
func IsLocal(err error) bool { return isOneOf(err, exhausted) }
