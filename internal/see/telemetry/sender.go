package telemetry

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/patchbay-ai/patchbay/internal/request/outgoing"
)

// sendTime is how long one export may take.
const sendTime = 10 * time.Second

// signal is a kind of data that collectors take: its name in variables of the environment, its path
// over HTTP, and its method of gRPC.
type signal struct{ name, path, method string }

// sender sends the messages of a signal to a collector. The first message shows whether it can be
// reached.
type sender struct {
	send  func(context.Context, proto.Message) error
	close func()
}

// sender returns a sender to the collector of the settings or of the environment.
func (s signal) sender(settings Settings) (*sender, error) {
	trust, err := s.trust()
	if err != nil {
		return nil, fmt.Errorf("telemetry: certificates of the environment: %w", err)
	}
	headers := settings.Headers
	if len(headers) == 0 {
		headers = headersOf(s.variable("HEADERS"))
	}
	if settings.Protocol == GRPC {
		return s.overGRPC(cmp.Or(settings.Endpoint, s.variable("ENDPOINT"), "http://localhost:4317"), headers, trust)
	}
	client := outgoing.New(outgoing.Options{Timeout: sendTime, TLS: trust, Idle: 1})
	to := s.address(cmp.Or(settings.Endpoint, os.Getenv(prefix+"ENDPOINT"), "http://localhost:4318"))
	if own := os.Getenv(prefix + s.name + "_ENDPOINT"); own != "" && settings.Endpoint == "" {
		to = own // with its path
		if u, err := url.Parse(own); err == nil && strings.Trim(u.Path, "/") == "" {
			to = s.address(own)
		}
	}
	return &sender{close: client.CloseIdleConnections, send: func(ctx context.Context, message proto.Message) error {
		body, err := proto.Marshal(message)
		if err != nil {
			return err
		}
		return client.Send(ctx, to, "application/x-protobuf", body, headers)
	}}, nil
}

func (s signal) overGRPC(endpoint string, headers map[string]string, trust *tls.Config) (*sender, error) {
	u, err := url.Parse(endpoint)
	if err != nil {
		return nil, fmt.Errorf("telemetry: %w", err)
	}
	target, secure := u.Host, insecure.NewCredentials()
	switch u.Scheme {
	case "https":
		trust.MinVersion = tls.VersionTLS12
		secure = credentials.NewTLS(trust)
	case "unix":
		target = u.String()
	}
	conn, err := grpc.NewClient(target, dialing(u), grpc.WithTransportCredentials(secure))
	if err != nil {
		return nil, fmt.Errorf("telemetry: %w", err)
	}
	return &sender{close: func() { _ = conn.Close() }, // nothing depends on it any more
		send: func(ctx context.Context, message proto.Message) error {
			ctx = metadata.NewOutgoingContext(ctx, metadata.New(headers))
			return conn.Invoke(ctx, s.method, message, new(emptypb.Empty))
		}}, nil
}

// The errors of exports. They are shown to operators, so they hold neither an address nor a
// credential.
var errTimeout = errors.New("the collector did not answer in time")

// export sends a message, and returns an error that may be shown.
func (s *sender) export(ctx context.Context, message proto.Message, otherwise error) error {
	err := s.send(ctx, message)
	if err != nil && ctx.Err() != nil {
		return errTimeout
	}
	if err != nil {
		return otherwise
	}
	return nil
}

// address returns the address of the signal at a collector with this base address.
func (s signal) address(base string) string {
	return strings.TrimSuffix(strings.TrimSuffix(base, "/"), s.path) + s.path
}

// prefix begins the variables of the environment.
const prefix = "OTEL_EXPORTER_OTLP_"

// variable returns a variable of the environment, of the signal or of all.
func (s signal) variable(name string) string {
	return cmp.Or(os.Getenv(prefix+s.name+"_"+name), os.Getenv(prefix+name))
}

// trust returns the certificates that the environment names.
func (s signal) trust() (*tls.Config, error) {
	trust, err := outgoing.Trust(s.variable("CERTIFICATE"))
	if own := s.variable("CLIENT_CERTIFICATE"); own != "" && err == nil {
		trust.Certificates = make([]tls.Certificate, 1)
		trust.Certificates[0], err = tls.LoadX509KeyPair(own, s.variable("CLIENT_KEY"))
	}
	return trust, err
}

// headersOf reads headers as the environment has them: names and escaped values, with commas between.
func headersOf(text string) map[string]string {
	headers := map[string]string{}
	for header := range strings.SplitSeq(text, ",") {
		name, value, isHeader := strings.Cut(header, "=")
		value, err := url.PathUnescape(strings.TrimSpace(value))
		if isHeader && err == nil {
			headers[strings.TrimSpace(name)] = value
		}
	}
	return headers
}

// dialing lets gRPC dial as other calls do. It leaves the proxies of the environment and sockets to gRPC.
func dialing(to *url.URL) grpc.DialOption {
	proxy, _ := outgoing.Proxy(&url.URL{Scheme: "https", Host: to.Host})
	if proxy != nil || to.Scheme == "unix" {
		return grpc.EmptyDialOption{}
	}
	return grpc.WithContextDialer(func(ctx context.Context, address string) (net.Conn, error) {
		return outgoing.Dialer().DialContext(ctx, "tcp", address)
	})
}
