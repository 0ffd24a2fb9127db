package backend

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/url"
	"strconv"
	"strings"
	"syscall"

	"github.com/patchbay-ai/patchbay/internal/adapter"
	"github.com/patchbay-ai/patchbay/internal/transport"
)

// Causes that are named in more than one place.
const (
	causeRefused = "connection refused"
	causeTimeout = "timeout"
)

// maxProbeBody is how much of an answer is read: enough for any answer to a
// health check, so that the connection can be kept.
const maxProbeBody = 4 << 10

// finding is what one probe found.
type finding uint8

const (
	nothing finding = iota // the probe says nothing about the backend
	alive
	loading
	dead
)

// verdict is a finding and, for the dead, its class.
type verdict struct {
	finding finding
	cause   string
}

// prober asks one backend whether it lives, in the cheapest way its kind has. It
// never asks for work.
type prober struct {
	client  *transport.Client
	connect func(ctx context.Context, to transport.Origin) error
}

// probe looks at a backend until ctx ends. An empty path means to connect only.
func (p *prober) probe(ctx context.Context, to transport.Origin, path string, header []adapter.Header) verdict {
	if path == "" {
		return judge(p.connect(ctx, to))
	}
	response, err := p.client.Send(ctx, to, &adapter.Call{Method: "GET", Path: path, Header: header}, transport.Timeouts{})
	if errors.Is(err, transport.ErrInvalidCall) {
		// Our configuration is at fault, and calls will say so; the backend
		// may be well.
		return judge(p.connect(ctx, to))
	}
	if err != nil {
		return judge(err)
	}
	defer func() { _ = response.Close() }()
	if response.Status < 500 {
		// Whoever refuses a key, a path or a rate is there. The rest of the
		// answer is of no interest, and neither is how it ends.
		_, _ = io.CopyN(io.Discard, response, maxProbeBody)
		return verdict{finding: alive}
	}
	if response.Status == 503 && saysLoading(response) {
		return verdict{finding: loading}
	}
	return verdict{dead, "status " + strconv.Itoa(response.Status)}
}

// saysLoading tells a server that is not ready yet from one that is in trouble.
func saysLoading(response *transport.Response) bool {
	if strings.Contains(strings.ToLower(response.Header("Content-Type")), "html") {
		return false // a page of a proxy in between, whose words mean nothing
	}
	body, _ := io.ReadAll(io.LimitReader(response, maxProbeBody)) // half an answer is read as well
	body = bytes.ToLower(body)
	if bytes.Contains(body, []byte("fail")) {
		return false // "loading the model failed" will not pass by waiting
	}
	for _, word := range []string{"loading", "warming up", "starting", "initializing"} {
		if bytes.Contains(body, []byte(word)) {
			return true
		}
	}
	return false
}

// judge reads how connecting or sending ended.
func judge(err error) verdict {
	switch {
	case err == nil:
		return verdict{finding: alive}
	case errors.Is(err, context.Canceled), isLocal(err):
		return verdict{finding: nothing}
	}
	return verdict{dead, causeOf(err)}
}

// isLocal tells that this machine, not the backend, had no means to connect.
func isLocal(err error) bool {
	return isErrno(err, syscall.EMFILE, syscall.ENFILE, syscall.ENOBUFS, syscall.ENOMEM, syscall.EADDRNOTAVAIL)
}

func isErrno(err error, numbers ...syscall.Errno) bool {
	for _, number := range numbers {
		if errors.Is(err, number) {
			return true
		}
	}
	return false
}

// IsRefusal tells whether a call failed because nobody is at the address: what
// Health.Refused is to be told. Timeouts are no refusals, as a busy server has
// them too, and neither is a name or a certificate that does not check out.
func IsRefusal(err error) bool {
	return isErrno(err, syscall.ECONNREFUSED, syscall.EHOSTUNREACH, syscall.ENETUNREACH, syscall.EHOSTDOWN)
}

// causeOf names the class of a failure. The texts are ours alone: an error of
// the network may hold addresses.
func causeOf(err error) string {
	timeout, isNet := errors.AsType[net.Error](err)
	name, isName := errors.AsType[*net.DNSError](err)
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		return causeRefused
	case IsRefusal(err):
		return "unreachable"
	case isName && name.IsNotFound:
		return "unknown host"
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, transport.ErrTimeout), isNet && timeout.Timeout():
		return causeTimeout
	case isName:
		return "name resolution"
	case isTLS(err):
		return "TLS handshake"
	case errors.Is(err, transport.ErrProtocol):
		return "not HTTP"
	case errors.Is(err, transport.ErrReset), isErrno(err, syscall.ECONNRESET, syscall.EPIPE), errors.Is(err, io.EOF):
		return "connection reset"
	}
	return "no connection"
}

func isTLS(err error) bool {
	_, certificate := errors.AsType[*tls.CertificateVerificationError](err)
	_, record := errors.AsType[tls.RecordHeaderError](err)
	_, alert := errors.AsType[tls.AlertError](err)
	return certificate || record || alert
}

// connectTo opens a connection, with TLS where the origin has it, and closes it.
func connectTo(ctx context.Context, to transport.Origin) error {
	conn, err := (&net.Dialer{Control: transport.RefuseMetadata}).DialContext(ctx, "tcp", to.Addr())
	if err != nil {
		return err
	}
	defer conn.Close()
	if !strings.HasPrefix(to.String(), "https:") {
		return nil
	}
	host, _, err := net.SplitHostPort(to.Addr())
	if err != nil {
		return err
	}
	host, _, _ = strings.Cut(host, "%") // a zone is no part of a certificate
	return tls.Client(conn, &tls.Config{
		ServerName: host,
		NextProtos: []string{"http/1.1"},
		MinVersion: tls.VersionTLS12,
	}).HandshakeContext(ctx)
}

// healthPath is where the health of an instance is asked for, empty where its
// kind has no such place. A base URL may end in /v1, under which calls are but
// not every health check, or in the first segment of the path itself.
func healthPath(i *Instance) string {
	health := i.Kind.Health
	if health == "" {
		return ""
	}
	base := ""
	if parsed, err := url.Parse(i.Settings.BaseURL); err == nil {
		base = parsed.EscapedPath()
	}
	base = strings.TrimSuffix(strings.TrimRight(base, "/"), "/v1")
	first, _, _ := strings.Cut(health[1:], "/")
	return strings.TrimSuffix(base, "/"+first) + health
}
