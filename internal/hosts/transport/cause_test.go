package transport

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"
)

// Every way in which a backend cannot be reached has a word of its own, and no
// word or text holds an address.
func TestCauses(t *testing.T) {
	t.Parallel()
	private := newAuthority(t)
	serve := func(config *tls.Config) Origin {
		s := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
		s.Config.ErrorLog = log.New(io.Discard, "", 0)
		s.TLS = config
		s.StartTLS()
		t.Cleanup(s.Close)
		to := origin(t, s.URL)
		to.name = "backend.test"
		return to
	}
	wantsClient := private.serverConfig(t, "backend.test", time.Hour)
	wantsClient.ClientAuth = tls.RequireAnyClientCert
	vacant, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	vacant.Close()
	impatient := backend(t, func(p *peer) {
		p.in.Peek(1)
		p.say("HTTP/1.1 400 Bad Request\r\n\r\n")
	})
	failing := func(err error) Options {
		return Options{Dial: func(context.Context, string, string) (net.Conn, error) { return nil, err }}
	}
	trusting := Options{TLS: &tls.Config{RootCAs: pool509(private)}}
	for name, c := range map[string]struct {
		to      Origin
		options Options
		limits  Timeouts
		want    Cause
	}{
		"refused":        {to: origin(t, "http://"+vacant.Addr().String()), want: CauseRefused},
		"no such host":   {to: origin(t, "http://h"), options: failing(&net.DNSError{Name: "h", IsNotFound: true}), want: CauseUnknownHost},
		"no name server": {to: origin(t, "http://h"), options: failing(&net.DNSError{Name: "h", Server: "192.0.2.1:53"}), want: CauseNameResolution},
		"no route":       {to: origin(t, "http://h"), options: failing(os.NewSyscallError("connect", syscall.EHOSTUNREACH)), want: CauseUnreachable},
		"no sockets":     {to: origin(t, "http://h"), options: failing(os.NewSyscallError("socket", syscall.EMFILE)), want: CauseExhausted},
		"metadata":       {to: origin(t, "http://169.254.169.254"), want: CauseForbidden},
		"trusted":        {to: serve(private.serverConfig(t, "backend.test", time.Hour)), options: trusting, want: CauseNone},
		"untrusted":      {to: serve(private.serverConfig(t, "backend.test", time.Hour)), want: CauseUnknownAuthority},
		"expired":        {to: serve(private.serverConfig(t, "backend.test", -time.Hour)), options: trusting, want: CauseExpired},
		"another name":   {to: serve(private.serverConfig(t, "other.test", time.Hour)), options: trusting, want: CauseWrongName},
		"client unknown": {to: serve(wantsClient), options: trusting, want: CauseTLS},
		"plain server":   {to: origin(t, "https://"+impatient.Addr()), want: CauseNotTLS},
		"closed":         {to: backend(t, func(p *peer) { p.request() }), want: CauseClosed},
		"not HTTP":       {to: answering(t, "SSH-2.0-OpenSSH_9.9\r\n\r\n"), want: CauseNotHTTP},
		"many fields":    {to: answering(t, "HTTP/1.1 200 OK\r\n"+strings.Repeat("X: y\r\n", maxFields+1)+"\r\n"), want: CauseHeadTooLarge},
		"long head":      {to: answering(t, "HTTP/1.1 200 OK\r\nX: "+strings.Repeat("y", maxHead)+"\r\n\r\n"), want: CauseHeadTooLarge},
		"silent":         {to: backend(t, func(p *peer) { p.request(); p.in.ReadByte() }), limits: Timeouts{FirstByte: time.Millisecond}, want: CauseTimeout},
		"deaf": {to: origin(t, "http://h"), options: Options{Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		}}, limits: Timeouts{Connect: time.Millisecond}, want: CauseConnectTimeout},
		"reset": {to: backend(t, func(p *peer) {
			p.request()
			p.SetLinger(0)
		}), want: CauseReset},
	} {
		t.Run(name, func(t *testing.T) {
			r, err := client(t, c.options).Send(t.Context(), &c.to, post("x"), c.limits)
			if err == nil {
				r.Close()
			}
			got := CauseOf(err)
			if got != c.want {
				t.Errorf("%v is %q, want %q", err, got, c.want)
			}
			if text := fmt.Sprint(got, got.Text()); strings.Contains(text, "127.0.0.1") || strings.Contains(text, "192.0.2") {
				t.Errorf("%q holds an address", text)
			}
		})
	}
}

func TestLocalErrorsHaveNoCause(t *testing.T) {
	t.Parallel()
	for _, err := range []error{nil, context.Canceled, ErrInvalidCall, &Error{class: context.Canceled}} {
		if got := CauseOf(err); got != CauseNone {
			t.Errorf("%v is %q", err, got)
		}
	}
	if got := CauseOf(errors.New("anything else")); got != CauseNoConnection {
		t.Errorf("an unknown error is %q", got)
	}
}
