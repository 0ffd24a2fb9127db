package outgoing_test

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/dns/dnsmessage"

	"github.com/patchbay-ai/patchbay/internal/request/outgoing"
)

// kinds are the two kinds of clients.
var kinds = map[string]outgoing.Options{"outside": {}, "own": {Own: true}}

// ask sends a request with secrets, and returns the status and the body.
func ask(ctx context.Context, do func(*http.Request) (*http.Response, error), to string) (int, string, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, to, strings.NewReader("a secret"))
	if err != nil {
		return 0, "", err
	}
	request.Header.Set("X-Key", "secret")
	response, err := do(request)
	if err != nil {
		return 0, "", err
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(response.Body)
	return response.StatusCode, string(body), err
}

// A redirect is an error that holds scheme and host of its target, which gets nothing.
func TestRedirectsAreNotFollowed(t *testing.T) {
	t.Parallel()
	other := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		t.Errorf("the other server got %s with key %q", r.Method, r.Header.Get("X-Key"))
	}))
	t.Cleanup(other.Close)
	for _, status := range []int{300, 301, 302, 303, 304, 307, 308} {
		location := strings.Replace(other.URL, "http://", "http://user:secret@", 1) + "/secret?key=secret"
		named := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Location", location)
			w.WriteHeader(status)
		}))
		t.Cleanup(named.Close)
		for kind, options := range kinds {
			client := outgoing.New(options)
			for how, do := range map[string]func(*http.Request) (*http.Response, error){
				"the client": client.Do, "a library": client.Client.Do,
			} {
				_, _, err := ask(t.Context(), do, named.URL)
				redirect, is := errors.AsType[*outgoing.StatusError](err)
				if !is || redirect.Status != status || redirect.To != other.URL || strings.Contains(err.Error(), "secret") {
					t.Errorf("%s, %s, status %d: %v", kind, how, status, err)
				}
			}
			if err := client.Send(t.Context(), named.URL, "text/plain", []byte("secret"), map[string]string{"X-Key": "secret"}); err == nil {
				t.Errorf("%s, status %d: a message is taken as sent", kind, status)
			}
		}
	}
}

// A path and a query may be secret: those of a webhook are.
func TestErrorsHoldNoSecrets(t *testing.T) {
	t.Parallel()
	gone := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(gone.Close)
	err := outgoing.New(outgoing.Options{}).Send(t.Context(), gone.URL+"/secret", "text/plain", nil, nil)
	if refusal, is := errors.AsType[*outgoing.StatusError](err); !is || refusal.Status != http.StatusNotFound {
		t.Errorf("an answer with status 404: %v", err)
	}
	gone.Close()
	for _, to := range []string{gone.URL + "/secret?secret", "http://secret\x00"} {
		if err := outgoing.New(outgoing.Options{}).Send(t.Context(), to, "text/plain", nil, nil); err == nil || strings.Contains(err.Error(), "secret") {
			t.Errorf("%q: %v", to, err)
		}
	}
}

// Answers of others are bounded in size and in time. Those of own servers may be long.
func TestAnswersAreBounded(t *testing.T) {
	t.Parallel()
	done := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/fits":
			_, _ = w.Write(make([]byte, outgoing.Largest))
		case "/large":
			_, _ = w.Write(make([]byte, outgoing.Largest+1))
		case "/head":
			w.Header().Set("X-Long", strings.Repeat("x", 1<<20))
		case "/endless":
			_, _ = w.Write([]byte("x"))
			_ = http.NewResponseController(w).Flush()
			<-done
		}
	}))
	t.Cleanup(server.Close)
	t.Cleanup(func() { close(done) })
	var large *http.MaxBytesError
	for _, test := range []struct {
		path    string
		options outgoing.Options
		is      func(error) bool
	}{
		{"/fits", outgoing.Options{}, func(err error) bool { return err == nil }},
		{"/large", outgoing.Options{}, func(err error) bool { return errors.As(err, &large) }},
		{"/large", outgoing.Options{Own: true}, func(err error) bool { return err == nil }},
		{"/head", outgoing.Options{}, func(err error) bool { return err != nil }},
		{"/endless", outgoing.Options{Timeout: 50 * time.Millisecond}, os.IsTimeout},
		{"/endless", outgoing.Options{Timeout: 50 * time.Millisecond, Own: true}, os.IsTimeout},
	} {
		if _, _, err := ask(t.Context(), outgoing.New(test.options).Do, server.URL+test.path); !test.is(err) {
			t.Errorf("%s, %+v: %v", test.path, test.options, err)
		}
	}
}

// resolve makes names lead to addresses, and all others to this machine.
func resolve(t *testing.T, addresses map[string][4]byte) {
	before := net.DefaultResolver
	t.Cleanup(func() { net.DefaultResolver = before })
	net.DefaultResolver = &net.Resolver{PreferGo: true, Dial: func(context.Context, string, string) (net.Conn, error) {
		here, there := net.Pipe()
		go func() {
			defer func() { _ = there.Close() }()
			for answerName(there, addresses) == nil {
			}
		}()
		return here, nil
	}}
}

// answerName answers a question about a name over a stream.
func answerName(at net.Conn, addresses map[string][4]byte) error {
	var length [2]byte
	if _, err := io.ReadFull(at, length[:]); err != nil {
		return err
	}
	packed := make([]byte, binary.BigEndian.Uint16(length[:]))
	if _, err := io.ReadFull(at, packed); err != nil {
		return err
	}
	var message dnsmessage.Message
	if err := message.Unpack(packed); err != nil {
		return err
	}
	question := message.Questions[0]
	message.Response, message.Additionals = true, nil
	if question.Type == dnsmessage.TypeA {
		address, is := addresses[strings.TrimSuffix(question.Name.String(), ".")]
		if !is {
			address = [4]byte{127, 0, 0, 1}
		}
		message.Answers = []dnsmessage.Resource{{
			Header: dnsmessage.ResourceHeader{Name: question.Name, Class: dnsmessage.ClassINET, TTL: 1},
			Body:   &dnsmessage.AResource{A: address},
		}}
	}
	packed, err := message.Pack()
	if err != nil {
		return err
	}
	_, err = at.Write(append(binary.BigEndian.AppendUint16(nil, uint16(len(packed))), packed...))
	return err
}

func withoutProxies(t *testing.T) {
	for _, name := range []string{"HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "no_proxy", "REQUEST_METHOD"} {
		t.Setenv(name, "")
	}
}

// The address that is dialed counts, not the name that leads to it: neither a name that leads to a
// metadata service when it is dialed nor a proxy there is used.
func TestAddressesAreCheckedWhenTheyAreDialed(t *testing.T) {
	withoutProxies(t)
	resolve(t, map[string][4]byte{"rebound.test": {169, 254, 169, 254}})
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	t.Cleanup(server.Close)
	here, _ := url.Parse(server.URL)
	client := outgoing.New(outgoing.Options{Timeout: 10 * time.Second})
	for host, want := range map[string]error{
		"rebound.test": outgoing.ErrForbidden, "169.254.169.254": outgoing.ErrForbidden, "0xa9fea9fe": outgoing.ErrForbidden,
		"metadata.google.internal": outgoing.ErrForbidden, "[fd00:ec2::254]": outgoing.ErrForbidden,
		"good.test": nil, "127.0.0.1": nil,
	} {
		if _, _, err := ask(t.Context(), client.Do, "http://"+host+":"+here.Port()); !errors.Is(err, want) {
			t.Errorf("%s: %v, want %v", host, err, want)
		}
	}
	if _, err := outgoing.Dialer().DialContext(t.Context(), "tcp", "rebound.test:"+here.Port()); !errors.Is(err, outgoing.ErrForbidden) {
		t.Errorf("a connection of a library: %v", err)
	}
	t.Setenv("HTTP_PROXY", "http://rebound.test:"+here.Port())
	if _, _, err := ask(t.Context(), client.Do, "http://good.test:"+here.Port()); !errors.Is(err, outgoing.ErrForbidden) {
		t.Errorf("a proxy at a metadata service: %v", err)
	}
}

// Calls to others go through the proxies of the environment, unless NO_PROXY names them or they are on
// this machine. A proxy is asked neither for a forbidden address nor for an own server.
func TestProxiesOfTheEnvironmentAreUsed(t *testing.T) {
	withoutProxies(t)
	resolve(t, nil)
	answer := func(text string) *httptest.Server {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.WriteString(w, text+" "+r.Host+" "+r.UserAgent())
		}))
		t.Cleanup(s.Close)
		return s
	}
	proxy, server := answer("proxy"), answer("server")
	here, _ := url.Parse(server.URL)
	for _, name := range []string{"HTTP_PROXY", "HTTPS_PROXY"} {
		t.Setenv(name, proxy.URL)
	}
	t.Setenv("NO_PROXY", "near.test")
	for _, test := range []struct {
		kind, to, want string
	}{
		{"outside", "http://far.test:" + here.Port(), "proxy far.test:" + here.Port() + " patchbay"},
		{"outside", "http://near.test:" + here.Port(), "server near.test:" + here.Port() + " patchbay"},
		{"outside", server.URL, "server " + here.Host + " patchbay"},
		{"own", "http://far.test:" + here.Port(), "server far.test:" + here.Port() + " patchbay"},
	} {
		if _, got, err := ask(t.Context(), outgoing.New(kinds[test.kind]).Do, test.to); got != test.want || err != nil {
			t.Errorf("%s, %s: %q, %v, want %q", test.kind, test.to, got, err, test.want)
		}
	}
	client := outgoing.New(outgoing.Options{})
	for _, to := range []string{"http://169.254.169.254", "https://metadata.google.internal"} {
		if _, _, err := ask(t.Context(), client.Do, to); !errors.Is(err, outgoing.ErrForbidden) {
			t.Errorf("%s through a proxy: %v", to, err)
		}
	}
}
