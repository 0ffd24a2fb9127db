// Package forward sends copies of the audit to syslog servers and collectors of logs.
package forward

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"time"

	"github.com/patchbay-ai/patchbay/internal/request/outgoing"
	"github.com/patchbay-ai/patchbay/internal/wings/audit"
)

// patience bounds a connection, and the sending of a few messages.
const patience = 5 * time.Second

// syslog writes messages of RFC 5424 to a server.
type syslog struct {
	to    *url.URL
	host  string
	trust *tls.Config
	// conn is nil before the first message, and after an error. isFramed says that it is a
	// stream, where the length is before each message (RFC 6587).
	conn     net.Conn
	isFramed bool
}

// Syslog returns the target at an address such as tcp://host:601, tls://host:6514 or
// unix:///dev/log.
func Syslog(address string, trust *tls.Config) (audit.Target, error) {
	to, err := url.Parse(address)
	if err != nil {
		return audit.Target{}, fmt.Errorf("audit.syslog is no address")
	}
	s := &syslog{to: to, host: "-", trust: trust}
	if host, err := os.Hostname(); err == nil && host != "" {
		s.host = host
	}
	return audit.Target{Name: "syslog", Send: s.send, Close: s.drop}, nil
}

func (s *syslog) dial(ctx context.Context) (err error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	s.isFramed = true
	switch s.to.Scheme {
	case "tls":
		dialer := &tls.Dialer{NetDialer: outgoing.Dialer(), Config: s.trust}
		s.conn, err = dialer.DialContext(ctx, "tcp", s.to.Host)
	case "unix":
		s.isFramed = false
		if s.conn, err = new(net.Dialer).DialContext(ctx, "unixgram", s.to.Path); err != nil {
			s.isFramed = true
			s.conn, err = new(net.Dialer).DialContext(ctx, "unix", s.to.Path)
		}
	default:
		s.conn, err = outgoing.Dialer().DialContext(ctx, "tcp", s.to.Host)
	}
	if err != nil {
		s.conn = nil
	}
	return err
}

func (s *syslog) drop() {
	if s.conn != nil {
		_ = s.conn.Close() // it has failed, or nothing more is sent
	}
	s.conn = nil
}

// isClosed reports whether the server has closed the connection, which a write would not notice. A
// server of syslog sends nothing.
func (s *syslog) isClosed() bool {
	const moment = time.Millisecond
	err := s.conn.SetReadDeadline(time.Now().Add(moment))
	if err == nil {
		_, err = s.conn.Read(make([]byte, 1))
	}
	return err != nil && !errors.Is(err, os.ErrDeadlineExceeded)
}

// send writes messages: facility 13 (log audit), severity 6 (informational).
func (s *syslog) send(ctx context.Context, messages []audit.Message) error {
	const priority = 13*8 + 6
	if s.conn != nil && s.isClosed() {
		s.drop()
	}
	if s.conn == nil {
		if err := s.dial(ctx); err != nil {
			return err
		}
	}
	err := s.conn.SetWriteDeadline(time.Now().Add(patience))
	for _, m := range messages {
		line := fmt.Sprintf("<%d>1 %s %s patchbay %d %s - %s", priority, audit.Stamp(m.Time), s.host, os.Getpid(),
			m.Kind, m.Text)
		if s.isFramed {
			line = fmt.Sprintf("%d %s", len(line), line)
		}
		if err == nil {
			_, err = s.conn.Write([]byte(line))
		}
	}
	if err != nil {
		s.drop()
	}
	return err
}
