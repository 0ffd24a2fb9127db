package transport

import (
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"

	"github.com/patchbay-ai/patchbay/internal/request/outgoing"
)

// proxyError is a failure of the proxy on the way to a backend.
type proxyError struct {
	cause Cause
	err   error
}

func (e *proxyError) Error() string { return e.cause.Text() + ": " + e.err.Error() }
func (e *proxyError) Unwrap() error { return e.err }

// reach opens the way to an origin. TLS to the backend, or a plain request, is
// written to nc, and socket lies under it.
func (c *Client) reach(ctx context.Context, to Origin) (nc, socket net.Conn, err error) {
	via := to.via()
	if via.Proxy == "" {
		socket, err = c.dialer(ctx, "tcp", to.addr)
		return socket, socket, err
	}
	// The gateway dials the address of the proxy and therefore checks the address of
	// the backend here. Only the proxy can know that a name leads to a forbidden
	// address.
	if outgoing.ForbiddenHost(to.name) {
		return nil, nil, outgoing.ErrForbidden
	}
	p, err := parseProxy(via.Proxy)
	if err != nil {
		return nil, nil, err
	}
	if socket, err = c.dialer(ctx, "tcp", p.addr); err != nil {
		return nil, nil, &proxyError{CauseProxyUnreachable, err}
	}
	nc = socket
	if p.secure {
		config := c.tls.Clone()
		config.ServerName = p.name
		secured := tls.Client(socket, config)
		if err := secured.HandshakeContext(ctx); err != nil {
			_ = socket.Close()
			return nil, nil, &proxyError{CauseProxyUnreachable, err}
		}
		nc = secured
	}
	if !to.secure {
		return nc, socket, nil // each request names its origin
	}
	if err := openTunnel(ctx, nc, socket, to.addr, p.auth); err != nil {
		_ = socket.Close()
		return nil, nil, err
	}
	return nc, socket, nil
}

// maxTunnelHead is how much of a proxy's answer to CONNECT is read.
const maxTunnelHead = 16 << 10

// openTunnel asks a proxy for a connection to addr. When it returns nil, the next
// bytes that are written to nc arrive there.
func openTunnel(ctx context.Context, nc, socket net.Conn, addr, auth string) error {
	stop := context.AfterFunc(ctx, func() { _ = socket.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	request := "CONNECT " + addr + " HTTP/1.1\r\nHost: " + addr + "\r\nUser-Agent: patchbay\r\n"
	if auth != "" {
		request += "Proxy-Authorization: " + auth + "\r\n"
	}
	if _, err := io.WriteString(nc, request+"\r\n"); err != nil {
		return &proxyError{CauseProxyRefused, err}
	}
	status, err := tunnelStatus(nc)
	if err != nil {
		return &proxyError{CauseProxyRefused, unexpectedEOF(err)}
	}
	switch {
	case status == http.StatusProxyAuthRequired, status == http.StatusUnauthorized: // some say so of a wrong password
		return &proxyError{CauseProxyAuthentication, fmt.Errorf("status %d", status)}
	case status/100 != 2:
		return &proxyError{CauseProxyRefused, fmt.Errorf("status %d", status)}
	}
	if !stop() {
		return ctx.Err()
	}
	return nil
}

// tunnelStatus reads the head of the answer to CONNECT. Bytes behind it would be
// the backend's, which does not speak before it is spoken to.
func tunnelStatus(nc net.Conn) (int, error) {
	head := make([]byte, 0, 1<<10)
	for {
		if len(head) == cap(head) {
			if len(head) >= maxTunnelHead {
				return 0, flaw("the answer of the proxy is too long")
			}
			head = append(head, 0)[:len(head)]
		}
		n, err := nc.Read(head[len(head):cap(head)])
		head = head[:len(head)+n]
		end := bytes.Index(head, []byte("\r\n\r\n"))
		if end < 0 && err == nil {
			continue
		}
		if end < 0 {
			return 0, err
		}
		var major, minor, status int
		if _, err := fmt.Sscanf(string(head), "HTTP/%d.%d %d", &major, &minor, &status); err != nil || major != 1 {
			return 0, flaw("the answer of the proxy is not HTTP")
		}
		if status/100 == 2 && end+4 != len(head) {
			return 0, flaw("the proxy sent more than its answer")
		}
		return status, nil
	}
}

// Connect opens a connection to an origin, TLS and proxy included, and closes it
// again: the least work that shows whether anybody is there.
func (c *Client) Connect(ctx context.Context, to Origin) error {
	cn, err := c.dial(ctx, to, 0)
	if err != nil {
		return err
	}
	_ = cn.nc.Close()
	return nil
}
