package main

import (
	"bytes"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/patchbay-ai/patchbay/internal/gateway/gatewaytest"
	"github.com/patchbay-ai/patchbay/internal/hosts/providers"
	"github.com/patchbay-ai/patchbay/internal/testing/simulator"
)

// modelServer starts a backend with these models.
func modelServer(t *testing.T, models ...string) *simulator.Backend {
	t.Helper()
	b, err := simulator.Start(simulator.Options{Models: models, Record: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.Close)
	return b
}

func TestAddMakesOneVersionOfTheModelsOfABackend(t *testing.T) {
	t.Parallel()
	b := modelServer(t, "m", "bge-m3", "whisper-1")
	r := gatewaytest.Start(t, "")
	add := func(args ...string) (int, string, string) {
		return runFor(t, append([]string{"add", b.URL(), "--url", r.URL, "--adapter", "openai"}, args...)...)
	}
	if code, stdout, stderr := add("--dry-run"); code != exitOK || !strings.Contains(stdout, "3 instances would be added") || r.Control.Version() != 1 {
		t.Fatalf("%d %s%s", code, stdout, stderr)
	}
	if code, stdout, stderr := add("--model", "m", "--model", "bge-m3"); code != exitOK || !strings.Contains(stdout, "added 2 instances; the configuration is version 2\nThe configuration file is unchanged") {
		t.Fatalf("%d %s%s", code, stdout, stderr)
	}
	r.Chat(gatewaytest.PlainHi).Succeeds(t)
	r.Post("/v1/embeddings", `{"model":"bge-m3","input":"x"}`).Succeeds(t)
	if code, stdout, stderr := add("--json"); code != exitOK || !strings.Contains(stdout, `"version": 3`) || strings.Count(stdout, `"exists": true`) != 2 {
		t.Fatalf("%d %s%s", code, stdout, stderr)
	}
	if code, stdout, stderr := add(); code != exitOK || !strings.Contains(stdout, "nothing is new") || r.Control.Version() != 3 {
		t.Errorf("%d %s%s", code, stdout, stderr)
	}
	if code, _, stderr := add("--model", "whisper1"); code != exitFailed || !strings.Contains(stderr, `did you mean "whisper-1"`) {
		t.Errorf("%d %s", code, stderr)
	}
}

func TestAddSendsTheKeyOfTheEnvironment(t *testing.T) {
	t.Parallel()
	b := modelServer(t, "m")
	r := gatewaytest.Start(t, gatewaytest.SecuredYAML())
	args := []string{"add", b.URL(), "--url", r.URL, "--adapter", "openai", "--key-env", "BACKEND_KEY"}
	var out, errs bytes.Buffer
	env := []string{"BACKEND_KEY=sk-of-the-backend", "PATCHBAY_TOKEN=admin-token"}
	if code := run(args, env, &out, &errs); code != exitOK {
		t.Fatalf("%d %s%s", code, out.String(), errs.String())
	}
	r.Chat(gatewaytest.PlainHi, "Authorization", "Bearer x").Succeeds(t)
	if got := b.Requests()[0].Header.Get("Authorization"); got != "Bearer sk-of-the-backend" {
		t.Errorf("the backend was sent %q", got)
	}
	if strings.Contains(out.String()+errs.String(), "sk-of") {
		t.Error("the key was printed")
	}
	if code, _, stderr := runFor(t, args...); code != exitFailed || !strings.Contains(stderr, "BACKEND_KEY has no key") {
		t.Errorf("without the variable: %d %s", code, stderr)
	}
}

func TestAddSaysWhyItCannot(t *testing.T) {
	t.Parallel()
	r := gatewaytest.Start(t, "")
	locked := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusUnauthorized) }))
	t.Cleanup(locked.Close)
	for name, test := range map[string]struct {
		code int
		says string
		args []string
	}{
		"key missing":      {exitFailed, "--key-env NAME", []string{locked.URL, "--url", r.URL}},
		"nothing there":    {exitFailed, "no list of models was found", []string{simulator.DownURL, "--url", r.URL}},
		"no gateway":       {exitFailed, "no gateway answers", []string{simulator.DownURL, "--url", simulator.DownURL}},
		"no address":       {exitUsage, "want the address of a backend", []string{"localhost", "--url", r.URL}},
		"nothing":          {exitUsage, "the address of the backend is missing", nil},
		"no such type":     {exitUsage, "--type", []string{"http://x", "--type", "cooking"}},
		"no key":           {exitFailed, "OPENAI_API_KEY", []string{"openai", "--url", r.URL}},
		"unknown adapters": {exitFailed, "adapter", []string{"http://x", "--adapter", "nothing", "--url", r.URL}},
	} {
		if code, _, stderr := runFor(t, append([]string{"add"}, test.args...)...); code != test.code || !strings.Contains(stderr, test.says) {
			t.Errorf("%s: %d %s", name, code, stderr)
		}
	}
	// A backend without a list is added with what the flags say.
	if code, stdout, stderr := runFor(t, "add", simulator.DownURL, "--url", r.URL, "--model", "w", "--type", "stt", "--adapter", "whispercpp"); code != exitOK {
		t.Errorf("%d %s%s", code, stdout, stderr)
	}
}

// TestAddKnowsProviders names providers in place of addresses.
func TestAddKnowsProviders(t *testing.T) {
	t.Parallel()
	for _, p := range providers.All() {
		flags := addFlags{backend: strings.ToUpper(p.Name)}
		if err := flags.complete(); err != nil || flags.backend != p.BaseURL || flags.adapter != p.Adapter || flags.keyVariable != p.Variable || flags.path != p.Path {
			t.Errorf("%s: %v %+v", p.Name, err, flags)
		}
	}
	r := gatewaytest.Start(t, "")
	for want, args := range map[string][]string{
		"DEEPSEEK_API_KEY has no key": {"deepseek"}, `did you mean "deepseek"`: {"deepsek"}, "HOUSE_KEY has no key": {"deepseek", "--key-env", "HOUSE_KEY"},
	} {
		if code, _, stderr := runFor(t, append([]string{"add", "--url", r.URL}, args...)...); code == exitOK || !strings.Contains(stderr, want) {
			t.Errorf("%v: %d %s", args, code, stderr)
		}
	}
	// One without a list of models where others have it: its own path is in the instance.
	b := modelServer(t, "m")
	flags := addFlags{backend: b.URL(), path: "/v1/chat/completions"}
	if list := flags.additions([]addedModel{{Model: "m", ServiceType: "chat"}, {Model: "e", ServiceType: "embedding"}}, "openai", "")["instances"]; !strings.Contains(fmt.Sprint(list), "path:/v1/chat/completions") || strings.Count(fmt.Sprint(list), "path:") != 1 {
		t.Error(list)
	}
	r.API("GET", "/api/config/providers", "").Is(t, 200, `"name":"deepseek"`, `"baseUrl":"https://api.deepseek.com"`, `"keyVariable":"DEEPSEEK_API_KEY"`, `"path":"/chat/completions"`)
}

// TestAddReachesBedrockByKey has a server with the names of Bedrock's endpoints behind a proxy, with the paths, headers
// and answers of the documentation of AWS: bedrock-runtime has no list of models.
func TestAddReachesBedrockByKey(t *testing.T) {
	t.Parallel()
	const (
		openAI, claude = "openai.gpt-oss-20b-1:0", "anthropic.claude-sonnet-4-6"
		chatted        = `{"id":"chatcmpl-1","object":"chat.completion","created":1,"model":"` + openAI + `","service_tier":"default","choices":[{"index":0,"finish_reason":"stop","message":{"role":"assistant","content":"Hello there"}}],"usage":{"prompt_tokens":68,"completion_tokens":20,"total_tokens":88}}`
		message        = `{"id":"msg_bdrk_1","type":"message","role":"assistant","model":"claude-sonnet-4-6","content":[{"type":"text","text":"Hello there"}],"stop_reason":"end_turn","stop_sequence":null,"usage":{"input_tokens":68,"output_tokens":20}}`
		listed         = `{"data":[{"type":"model","id":"` + claude + `","display_name":"Claude Sonnet 4.6","created_at":"2026-02-01T00:00:00Z"}],"has_more":false,"first_id":"` + claude + `","last_id":"` + claude + `"}`
	)
	for name, c := range map[string]struct {
		args      string
		host      string
		model     string
		answers   map[string]string // by method and path; 404 for others
		key       string            // header of the call and its value
		variable  string
		wantError string // of add without --model
	}{
		"chat": {"bedrock", "bedrock-runtime.us-east-1.amazonaws.com", openAI,
			map[string]string{"POST /openai/v1/chat/completions": chatted}, "Authorization: Bearer the-key", "AWS_BEARER_TOKEN_BEDROCK", "no list of models was found"},
		"another region and variable": {"https://bedrock-runtime.eu-central-1.amazonaws.com/openai --adapter openai --type chat --key-env HOUSE_KEY", "bedrock-runtime.eu-central-1.amazonaws.com", openAI,
			map[string]string{"POST /openai/v1/chat/completions": chatted}, "Authorization: Bearer the-key", "HOUSE_KEY", "no list of models was found"},
		"Claude": {"bedrock-claude", "bedrock-mantle.us-east-1.api.aws", claude,
			map[string]string{"GET /anthropic/v1/models": listed, "POST /anthropic/v1/messages": message}, "X-Api-Key: the-key", "AWS_BEARER_TOKEN_BEDROCK", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			header, value, _ := strings.Cut(c.key, ": ")
			bedrock := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				answer, is := c.answers[r.Method+" "+r.URL.Path]
				w.Header().Set("Content-Type", "application/json")
				switch {
				case r.Host != c.host || r.Header.Get(header) != value:
					w.WriteHeader(http.StatusForbidden)
				case !is:
					w.WriteHeader(http.StatusNotFound)
				}
				fmt.Fprint(w, answer)
			}))
			authority := gatewaytest.NewAuthority(t)
			certificateFile, keyFile := authority.Pair(t, c.host)
			bedrock.TLS = &tls.Config{Certificates: []tls.Certificate{gatewaytest.LoadPair(t, certificateFile, keyFile)}, MinVersion: tls.VersionTLS12}
			bedrock.StartTLS()
			t.Cleanup(bedrock.Close)
			gateway := startChildWith(t, []string{"HTTPS_PROXY=" + connectTo(t, c.host, bedrock.Listener.Addr().String()), "SSL_CERT_FILE=" + authority.File}, "serve", "--listen", "127.0.0.1:0")
			gateway.waitFor(`"msg":"listening"`)
			add := func(env []string, more ...string) (int, string) {
				var out bytes.Buffer
				code := run(append(append([]string{"add", "--url", gateway.url()}, strings.Fields(c.args)...), more...), env, &out, &out)
				return code, out.String()
			}
			env := []string{c.variable + "=the-key"}
			if code, said := add(nil); code != exitFailed || !strings.Contains(said, c.variable+" has no key") {
				t.Errorf("without a key: got %d %s, want the variable", code, said)
			}
			if code, said := add(env, "--dry-run"); (code == exitOK) != (c.wantError == "") || !strings.Contains(said, c.wantError) {
				t.Errorf("without a model: got %d %s, want %q", code, said, c.wantError)
			}
			if code, said := add(env, "--model", c.model); code != exitOK || !strings.Contains(said, "added 1 instance") || strings.Contains(said, "the-key") {
				t.Fatalf("got %d %s, want an instance, and no key", code, said)
			}
			reply := gateway.ask(http.MethodPost, "/v1/chat/completions", `{"model":"`+c.model+`","messages":[{"role":"user","content":"hi"}]}`)
			if reply.Status != http.StatusOK || !strings.Contains(reply.Body, "Hello there") || !strings.Contains(reply.Body, `"total_tokens":88`) {
				t.Errorf("got %d %s, want the answer of Bedrock", reply.Status, reply.Body)
			}
		})
	}
}

// connectTo starts a proxy that connects everybody who asks for port 443 of a host to an address. It returns its URL.
func connectTo(t *testing.T, host, address string) string {
	t.Helper()
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodConnect || r.Host != host+":443" {
			w.WriteHeader(http.StatusBadGateway)
			return
		}
		to, err := new(net.Dialer).DialContext(r.Context(), "tcp", address)
		if err != nil {
			w.WriteHeader(http.StatusBadGateway)
			return
		}
		defer to.Close()
		from, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer from.Close()
		fmt.Fprint(from, "HTTP/1.1 200 OK\r\n\r\n")
		go func() {
			_, _ = io.Copy(to, from)
			to.Close()
		}()
		_, _ = io.Copy(from, to)
	}))
	t.Cleanup(proxy.Close)
	return proxy.URL
}
