package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	mathbig "math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/patchbay-ai/patchbay/internal/gateway/gatewaytest"
	"github.com/patchbay-ai/patchbay/internal/testing/simulator"
)

// startTinyproxy starts the forward proxy of that name and returns its address and
// what reads its log. It asks for the user gateway with the password s3cret.
func startTinyproxy(t *testing.T) (addr string, logged func() string) {
	t.Helper()
	binary, err := exec.LookPath("tinyproxy")
	if err != nil {
		t.Skip("tinyproxy is not installed")
	}
	dir := t.TempDir()
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr = listener.Addr().String()
	listener.Close()
	_, port, _ := net.SplitHostPort(addr)
	file, logFile := filepath.Join(dir, "tinyproxy.conf"), filepath.Join(dir, "log")
	text := "Port " + port + "\nListen 127.0.0.1\nTimeout 60\nLogFile \"" + logFile + "\"\nLogLevel Connect\nBasicAuth gateway s3cret\nMaxClients 20\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	process := exec.CommandContext(t.Context(), binary, "-d", "-c", file)
	if err := process.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = process.Process.Kill()
		_ = process.Wait()
	})
	gatewaytest.Eventually(t, "tinyproxy listens", func() bool {
		conn, err := net.DialTimeout("tcp", addr, time.Second)
		if err == nil {
			conn.Close()
		}
		return err == nil
	})
	return addr, func() string {
		data, _ := os.ReadFile(logFile)
		return string(data)
	}
}

// ownAddress is an address of this machine that is not loopback.
func ownAddress(t *testing.T) net.IP {
	t.Helper()
	all, err := net.InterfaceAddrs()
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range all {
		if n, ok := a.(*net.IPNet); ok && n.IP.To4() != nil && n.IP.IsGlobalUnicast() {
			return n.IP
		}
	}
	t.Skip("this machine has no address but loopback")
	return nil
}

// privateServer puts TLS of a private authority in front of a backend, listening at
// an address of this machine, and returns its URL and the file of the authority.
func privateServer(t *testing.T, b *simulator.Backend, ip net.IP) (base, authority string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: mathbig.NewInt(1), Subject: pkix.Name{CommonName: "private"}, IPAddresses: []net.IP{ip}, DNSNames: []string{"llm.corp.test"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	authority = filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(authority, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600); err != nil {
		t.Fatal(err)
	}
	target, err := url.Parse(b.URL())
	if err != nil {
		t.Fatal(err)
	}
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", net.JoinHostPort(ip.String(), "0"))
	if err != nil {
		t.Fatal(err)
	}
	s := &httptest.Server{Listener: listener, Config: &http.Server{Handler: httputil.NewSingleHostReverseProxy(target), ErrorLog: log.New(io.Discard, "", 0)}}
	s.TLS = &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}}
	s.StartTLS()
	t.Cleanup(s.Close)
	return s.URL, authority
}

// Requests, streams and health checks go through a real forward proxy: https by
// CONNECT with a private authority, http by absolute requests. Its password is
// shown nowhere.
func TestRealForwardProxy(t *testing.T) {
	proxy, logged := startTinyproxy(t)
	b := gatewaytest.StartBackend(t)
	secure, authority := privateServer(t, b, ownAddress(t))
	plain := strings.Replace(b.URL(), "127.0.0.1", "localhost", 1)
	address := "http://gateway:s3cret@" + proxy
	t.Setenv("HTTPS_PROXY", address)
	t.Setenv("NO_PROXY", "")
	r := gatewaytest.Start(t, gatewaytest.PolicyYAML("health-check: {interval: 100ms, unhealthy-threshold: 1000000}",
		gatewaytest.Instance("secure", secure, "tls: {ca: "+authority+"}"), // by the environment
		gatewaytest.Instance("plain", plain, "proxy: "+address),
		gatewaytest.Instance("direct", secure, "proxy: none, tls: {ca: "+authority+"}"),
		gatewaytest.Instance("wrong", secure, "proxy: "+strings.Replace(address, "s3cret", "guessed", 1)+", tls: {ca: "+authority+"}"),
		gatewaytest.Instance("refused", "https://"+ownAddress(t).String()+":1"),
	))
	for _, model := range []string{"secure", "plain", "direct"} {
		for _, more := range []string{"", `,"stream":true`} {
			r.Chat(`{"model":"` + model + `"` + more + `,` + gatewaytest.SomeMessages + `}`).Succeeds(t)
		}
		i := r.Instances(model)[0]
		gatewaytest.Eventually(t, model+" is found well", func() bool { return i.Health.Snapshot().Status.String() == "HEALTHY" })
	}
	host := strings.TrimPrefix(secure, "https://")
	seen := logged()
	if !strings.Contains(seen, "CONNECT "+host+" HTTP/1.1") || !strings.Contains(seen, "POST "+plain+"/v1/chat/completions HTTP/1.1") {
		t.Errorf("tinyproxy saw\n%s", seen)
	}
	for model, cause := range map[string]string{"wrong": "proxy_authentication", "refused": "proxy_refused"} {
		said := r.Chat(`{"model":"` + model + `",` + gatewaytest.SomeMessages + `}`)
		fault := said.FailsWith(t, 502, "api_error", "upstream_error", "")
		if !strings.Contains(string(fault.Details), `"cause":"`+cause+`"`) {
			t.Errorf("%s: %s", model, said.Body)
		}
	}
	if gatewaytest.CountLines(r.Logs.String(), "backends are reached through the proxies of the environment", `"https_proxy":"http://****@`+proxy+`"`) != 1 {
		t.Errorf("the log says nothing of the proxy:\n%s", r.Logs.String())
	}
	gatewaytest.ContainsNone(t, r.Logs.String(), "s3cret")
	if got := onlyHeader(b, "Proxy-Authorization"); got != "" {
		t.Errorf("the backend saw the credentials of the proxy: %s", got)
	}
}

// onlyHeader returns the values of a header that a backend saw, together.
func onlyHeader(b *simulator.Backend, name string) string {
	var all string
	for _, q := range b.Requests() {
		all += q.Header.Get(name)
	}
	return all
}

// A private authority is trusted by the instance that names its file, and a file
// that is missing is an error that names the setting.
func TestPrivateAuthority(t *testing.T) {
	b := gatewaytest.StartBackend(t)
	base, authority := privateServer(t, b, net.IPv4(127, 0, 0, 1))
	r := gatewaytest.Start(t, gatewaytest.PolicyYAML(gatewaytest.NoChecks,
		gatewaytest.Instance("trusted", base, "tls: {ca: "+authority+"}"),
		gatewaytest.Instance("named", base, "tls: {ca: "+authority+", server-name: llm.corp.test}"),
		gatewaytest.Instance("misnamed", base, "tls: {ca: "+authority+", server-name: other.test}"),
		gatewaytest.Instance("plain", base)))
	for model, cause := range map[string]string{"trusted": "", "named": "", "misnamed": "certificate_wrong_name", "plain": "unknown_authority"} {
		said := r.Chat(`{"model":"` + model + `",` + gatewaytest.SomeMessages + `}`)
		if cause == "" {
			said.Succeeds(t)
		} else if said.FailsWith(t, 502, "api_error", "upstream_error", ""); !strings.Contains(said.Body, `"cause":"`+cause+`"`) {
			t.Errorf("%s: %s", model, said.Body)
		}
	}
	r.API("POST", gatewaytest.AddInstancePath+"chat", fmt.Sprintf(`{"name":"m","baseUrl":%q,"tls":{"ca":%q}}`, base, authority+".gone")).Is(t, 400, "tls.ca: the file does not exist")
	file := filepath.Join(t.TempDir(), "patchbay.yaml")
	yaml := "services:\n  chat:\n    instances:\n      - {name: m, base-url: \"" + base + "\", tls: {ca: /nowhere/ca.pem}}\n"
	if err := os.WriteFile(file, []byte(yaml), 0o600); err != nil {
		t.Fatal(err)
	}
	if code, _, said := runHere(t, "check", "--config", file); code != 3 || !strings.Contains(said, "patchbay.yaml:4:") || !strings.Contains(said, "tls.ca: the file does not exist") {
		t.Errorf("check exits with %d: %s", code, said)
	}
}

// The management API masks the credentials of a proxy, keeps them when the mask
// comes back, and lets nobody see a stored key by way of a proxy.
func TestProxyAndTLSOfAnInstanceByTheAPI(t *testing.T) {
	t.Parallel()
	r := gatewaytest.Start(t, gatewaytest.SecuredYAML())
	admin, operator := []string{"Authorization", "Bearer admin-token"}, []string{"Authorization", "Bearer operator-token"}
	const base = "https://llm.corp.test"
	r.API("POST", gatewaytest.AddInstancePath+"chat", `{"name":"m","baseUrl":"`+base+`","apiKey":"sk-of-the-backend","proxy":"http://user:s3cret@proxy.test:3128","keepAlive":false,"idleConnections":3}`, admin...).Is(t, 201)
	list := "/api/config/instance/type/chat"
	r.API("GET", list, "", admin...).Is(t, 200, `"proxy":"http://user:s3cret@proxy.test:3128"`, `"keepAlive":false`, `"idleConnections":3`)
	seen := r.API("GET", list, "", operator...).Is(t, 200, `"proxy":"http://****@proxy.test:3128"`)
	gatewaytest.ContainsNone(t, seen.Body, "s3cret")
	change := func(fields string, who []string) gatewaytest.ManagementReply {
		return r.API("PUT", gatewaytest.UpdateInstancePath+"chat", `{"instanceId":"m@`+base+`","instance":{`+fields+`}}`, who...)
	}
	change(`"weight":2,"proxy":"http://****@proxy.test:3128"`, operator).Is(t, 200)
	if got := r.Instances("m")[0].Settings.Proxy; got != "http://user:s3cret@proxy.test:3128" {
		t.Errorf("the mask became %q", got)
	}
	change(`"proxy":"http://****@elsewhere.test"`, operator).Is(t, 400, "proxy")
	change(`"proxy":"http://mine.test"`, operator).Is(t, 400, "apiKey")
	change(`"proxy":"none","apiKey":"another"`, operator).Is(t, 200)
	change(`"tls":{"ca":"/etc/passwd"}`, operator).Is(t, 400, "only ADMIN")
	change(`"proxy":"socks5://user:s3cret@proxy.test"`, admin).Is(t, 400, "instance.proxy")
	gatewaytest.ContainsNone(t, r.Logs.String(), "s3cret")
	gatewaytest.ContainsNone(t, r.API("GET", gatewaytest.VersionsPath, "", operator...).Body, "s3cret")
}
