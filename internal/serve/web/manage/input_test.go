package manage_test

import (
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/patchbay-ai/patchbay/internal/gateway/gatewaytest"
	"github.com/patchbay-ai/patchbay/internal/testing/simulator"
)

// Whatever is wrong with a request of the management API is a 400 or 404 that
// names the field, and changes nothing.
func TestBadManagementInputNamesTheFieldAndChangesNothing(t *testing.T) {
	t.Parallel()
	r := gatewaytest.Start(t, gatewaytest.ChatYAML(gatewaytest.Instance("m", simulator.DownURL, "api-key: a-stored-key")))
	id := "m@" + simulator.DownURL
	add := func(fields string) [3]string {
		return [3]string{"POST", gatewaytest.AddInstancePath + "chat", `{"name":"n","baseUrl":"http://10.0.0.1",` + fields + `}`}
	}
	base := func(address string) [3]string {
		return [3]string{"POST", gatewaytest.AddInstancePath + "chat", fmt.Sprintf(`{"name":"n","baseUrl":%q}`, address)}
	}
	up := func(instance string) [3]string {
		return [3]string{"PUT", gatewaytest.UpdateInstancePath + "chat", fmt.Sprintf(`{"instanceId":%q,"instance":%s}`, id, instance)}
	}
	policy := func(body string) [3]string { return [3]string{"PUT", gatewaytest.TypesPath + "chat", body} }
	type bad struct {
		request [3]string
		status  int
		names   string
	}
	all := []bad{
		{add(`"colour":1`), 400, "colour"}, {add(`"weight":"1"`), 400, "weight"}, {add(`"weight":-1`), 400, "weight"}, {add(`"weight":1e308`), 400, "weight"},
		{add(`"weight":1,"weight":2`), 400, "weight"}, {add(`"enabled":1`), 400, "enabled"}, {add(`"apiKey":5`), 400, "apiKey"}, {add(`"apiKey":"****1234"`), 400, "apiKey"},
		{add(`"apiKey":"a\nb"`), 400, "apiKey"}, {add(`"path":"v1"`), 400, "path"}, {add(`"path":"/../x"`), 400, "path"}, {add(`"path":"/%2e%2e/x"`), 400, "path"},
		{add(`"headers":{"Host":"x"}`), 400, "headers"}, {add(`"headers":{"X":"****"}`), 400, "headers"}, {add(`"adapter":"nonsense"`), 400, "adapter"},
		{add(`"base-url":"http://10.0.0.2"`), 400, "baseUrl"}, {add(`"timeouts":{"total":"soon"}`), 400, "timeouts.total"}, {add(`"maxConcurrency":-1`), 400, "maxConcurrency"},
		{base(""), 400, "baseUrl"}, {base("10.0.0.1"), 400, "baseUrl"}, {base("ftp://10.0.0.1"), 400, "baseUrl"}, {base("file:///etc/passwd"), 400, "baseUrl"},
		{base("http://user:pass@10.0.0.1"), 400, "baseUrl"}, {base("http://10.0.0.1?x=1"), 400, "baseUrl"}, {base("http://10.0.0.1#x"), 400, "baseUrl"},
		{base("http://169.254.169.254"), 400, "baseUrl"}, {base("http://[fd00:ec2::254]/"), 400, "baseUrl"}, {base("http://2852039166"), 400, "baseUrl"},
		{base("http://0xa9.0xfe.0xa9.0xfe:80"), 400, "baseUrl"}, {base("http://metadata.google.internal./"), 400, "baseUrl"}, {base("http://[::ffff:169.254.169.254]"), 400, "baseUrl"},
		{base("http://10.0.0.1:0"), 400, "baseUrl"}, {base("http://10.0.0.1 x"), 400, "baseUrl"},
		{[3]string{"POST", gatewaytest.AddInstancePath + "chat", `{"baseUrl":"http://10.0.0.1"}`}, 400, "name"}, {[3]string{"POST", gatewaytest.AddInstancePath + "chat", `{"name":" ","baseUrl":"http://10.0.0.1"}`}, 400, "name"},
		{[3]string{"POST", gatewaytest.AddInstancePath + "video", `{"name":"n","baseUrl":"http://10.0.0.1"}`}, 400, "serviceType"},
		{up(`{"colour":1}`), 400, "instance.colour"}, {up(`{"weight":-1}`), 400, "instance.weight"}, {up(`{"baseUrl":"ftp://x"}`), 400, "instance.baseUrl"},
		{up(`{"baseUrl":"http://169.254.1.1"}`), 400, "instance.baseUrl"}, {up(`null`), 400, "instance"}, {up(`[]`), 400, "instance"}, {up(`{"name":""}`), 400, "instance.name"},
		{[3]string{"PUT", gatewaytest.UpdateInstancePath + "chat", `{"instance":{}}`}, 400, "instanceId"}, {[3]string{"PUT", gatewaytest.UpdateInstancePath + "chat", `{"instanceId":7,"instance":{}}`}, 400, "instanceId"},
		{[3]string{"PUT", gatewaytest.UpdateInstancePath + "chat", `{"instanceId":"m@x@y@z","instance":{}}`}, 404, "instanceId"}, {[3]string{"PUT", gatewaytest.UpdateInstancePath + "chat", `{"instanceId":"<script>alert(1)</script>","instance":{}}`}, 404, "instanceId"},
		{[3]string{"PUT", gatewaytest.UpdateInstancePath + "video", `{"instanceId":"m","instance":{}}`}, 404, "serviceType"},
		{policy(`{"loadBalancer":"best"}`), 400, "loadBalancer"}, {policy(`{"loadBalancer":5}`), 400, "loadBalancer"}, {policy(`{"rateLimit":{"capacity":0}}`), 400, "rateLimit.capacity"},
		{policy(`{"rateLimit":{"algorithm":"magic"}}`), 400, "rateLimit.algorithm"}, {policy(`{"rateLimit":{"client-ip":1}}`), 400, "rateLimit.client-ip"},
		{policy(`{"circuitBreaker":{"failureThreshold":1.5}}`), 400, "circuitBreaker.failureThreshold"}, {policy(`{"circuitBreaker":{"recoveryTimeout":-1}}`), 400, "circuitBreaker.recoveryTimeout"},
		{policy(`{"instances":{}}`), 400, "instances"}, {policy(`{"instances":[{"name":"a","baseUrl":"http://x"},{"name":"a","baseUrl":"http://x"}]}`), 400, "instances[1]"},
		{policy(`{"instances":[{"name":"a"}]}`), 400, "instances[0].baseUrl"}, {policy(`{"instances":[{"name":"a","baseUrl":"http://x","apiKey":"****"}]}`), 400, "instances[0].apiKey"},
		{policy(``), 400, "empty"}, {policy(`null`), 400, "object"}, {policy(`[]`), 400, "object"}, {policy(`{`), 400, "JSON"}, {policy(`{} {}`), 400, "JSON"}, {policy("\xff"), 400, "JSON"},
		{policy(`{"rateLimit":` + strings.Repeat("[", 5000)), 400, "nested"},
		{[3]string{"DELETE", "/api/config/instance/del/chat", ""}, 400, "modelName"}, {[3]string{"DELETE", "/api/config/instance/del/chat?modelName=%22%3Cscript%3E&baseUrl=x", ""}, 404, "modelName"},
		{[3]string{"DELETE", gatewaytest.TypesPath + "%3Cscript%3E", ""}, 404, "serviceType"}, {[3]string{"DELETE", gatewaytest.TypesPath + "a%2Fb", ""}, 404, "serviceType"},
		{[3]string{"POST", "/api/config/instance/circuit-breaker/chat", `{"state":"OPEN"}`}, 400, "instanceId"}, {[3]string{"POST", "/api/config/instance/circuit-breaker/chat", `{"instanceId":"m"}`}, 400, "state"},
		{[3]string{"POST", "/api/auth/keys", `{"id":"a b"}`}, 400, "id"}, {[3]string{"POST", "/api/auth/keys", `{"services":["video"]}`}, 400, "services[0]"},
		{[3]string{"POST", "/api/auth/keys", `{"expiresAt":"soon"}`}, 400, "expiresAt"}, {[3]string{"POST", "/api/auth/keys", `{"expiresAt":"2020-01-01T00:00:00Z"}`}, 400, "expiresAt"},
		{[3]string{"POST", "/api/auth/keys", `{"keySha256":"x"}`}, 400, "keySha256"}, {[3]string{"DELETE", "/api/auth/keys/nobody", ""}, 404, "nobody"},
	}
	for _, version := range []string{"abc", "1e3", "0x1", "+1", "1.0", "%22", "<script>"} {
		all = append(all, bad{[3]string{"GET", gatewaytest.VersionsPath + "/" + url.PathEscape(version), ""}, 400, "version"})
	}
	for _, version := range []string{"-1", "0", "99", "99999999999999999999", "9223372036854775808"} {
		for _, request := range [][3]string{{"GET", gatewaytest.VersionsPath + "/" + version, ""}, {"DELETE", gatewaytest.VersionsPath + "/" + version, ""}, {"POST", gatewaytest.VersionsPath + "/apply/" + version, ""}, {"POST", gatewaytest.VersionsPath + "/rollback/" + version, ""}} {
			all = append(all, bad{request, 404, "version"})
		}
	}
	before := r.API("GET", gatewaytest.VersionsPath+"/1", "").Body + r.API("GET", "/api/auth/keys", "").Body
	for _, test := range all {
		a := r.API(test.request[0], test.request[1], test.request[2])
		if a.Status != test.status || !strings.Contains(a.Message, test.names) {
			t.Errorf("%.160q: %d %s, want %d and %q", test.request, a.Status, a.Message, test.status, test.names)
		}
		gatewaytest.ContainsNone(t, a.Message, "user:pass", "a-stored-key")
	}
	if after := r.API("GET", gatewaytest.VersionsPath+"/1", "").Body + r.API("GET", "/api/auth/keys", "").Body; after != before || r.Control.Version() != 1 {
		t.Errorf("version %d: %s became %s", r.Control.Version(), before, after)
	}
}

func TestHugeManagementBodiesAreRefused(t *testing.T) {
	t.Parallel()
	r := gatewaytest.Start(t, "")
	huge := `{"adapter":"` + strings.Repeat("x", 1<<20) + `"}`
	r.API("PUT", gatewaytest.TypesPath+"chat", huge).Is(t, 413, "1 MiB")
	answer := r.SendRaw("PUT " + gatewaytest.TypesPath + "chat HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99999999\r\n\r\n")
	if gatewaytest.EnvelopeOf(t, answer).Is(t, 413); !answer.Closes {
		t.Error("the connection stays open")
	}
}

// Identifiers are compared whole: a name may hold whatever it likes.
func TestInstanceNamesWithOddCharacters(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	r := gatewaytest.StartWith(t, gatewaytest.Setup{DataDir: dir})
	for _, name := range []string{"a@b@http://x", "with/slash", `with "quotes"`, "<script>alert(1)</script>", "ünïcödé", "per%20cent", "a b", "'; drop table"} {
		const address = "http://10.0.0.1:8000"
		query := "?modelName=" + url.QueryEscape(name) + "&baseUrl=" + url.QueryEscape(address)
		r.API("POST", gatewaytest.AddInstancePath+"chat", fmt.Sprintf(`{"name":%s,"baseUrl":%q}`, quoted(name), address)).Is(t, 201, quoted(name+"@"+address))
		r.API("GET", "/api/config/instance/info/chat"+query, "").Is(t, 200, quoted(name))
		r.API("PUT", gatewaytest.UpdateInstancePath+"chat", fmt.Sprintf(`{"instanceId":%s,"instance":{"weight":2}}`, quoted(name+"@"+address))).Is(t, 200, `"changed":true`)
		r.Halt()
		r = gatewaytest.StartWith(t, gatewaytest.Setup{DataDir: dir})
		r.API("GET", "/api/config/instance/info/chat"+query, "").Is(t, 200, `"weight":2`)
		r.API("DELETE", "/api/config/instance/del/chat"+query, "").Is(t, 200)
	}
}

// quoted writes a text as JSON.
func quoted(text string) string {
	return `"` + strings.ReplaceAll(strings.ReplaceAll(text, `\`, `\\`), `"`, `\"`) + `"`
}

func TestSavesThatFailAre500AndChangeNothing(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	r := gatewaytest.StartWith(t, gatewaytest.Setup{DataDir: dir})
	versions := filepath.Join(dir, "versions")
	if err := os.Rename(versions, versions+".away"); err != nil {
		t.Fatal(err)
	}
	a := r.API("PUT", gatewaytest.TypesPath+"chat", `{"loadBalancer":"random"}`).Is(t, 500, "Saving failed")
	gatewaytest.ContainsNone(t, a.Body, dir)
	r.API("GET", gatewaytest.TypesPath+"chat", "").Is(t, 200, "round_robin")
	if err := os.Rename(versions+".away", versions); err != nil {
		t.Fatal(err)
	}
	r.API("PUT", gatewaytest.TypesPath+"chat", `{"loadBalancer":"random"}`).Is(t, 200, `"version":2`)
	// A version that somebody spoiled by hand is not applied.
	spoiled := strings.Replace(string(gatewaytest.ReadFile(t, gatewaytest.VersionFile(dir, 1))), `"chat": {}`, `"chat": {"rateLimit": {"capacity": -5}}`, 1)
	gatewaytest.WriteFile(t, gatewaytest.VersionFile(dir, 1), spoiled)
	r.API("POST", gatewaytest.VersionsPath+"/apply/1", "").Is(t, 400, "capacity")
	gatewaytest.WriteFile(t, gatewaytest.VersionFile(dir, 1), "{")
	r.API("POST", gatewaytest.VersionsPath+"/apply/1", "").Is(t, 500)
	r.API("GET", gatewaytest.VersionsPath+"/current", "").Is(t, 200, `"data":2`)
}

// A client of Ollama's own API is told what it can use instead.
func TestClientsOfOllamaAreToldTheAddress(t *testing.T) {
	t.Parallel()
	r := gatewaytest.Start(t, gatewaytest.ChatYAML(gatewaytest.Instance("m", simulator.DownURL)))
	for path, method := range map[string]string{"/api/chat": "POST", "/api/generate": "POST", "/api/tags": "GET", "/api/version": "GET"} {
		r.API(method, path, "").Is(t, 404, "Ollama's API is not here", "/ollama")
	}
	if answer := r.API("GET", "/api/nothing", "").Is(t, 404); strings.Contains(answer.Body, "Ollama") {
		t.Errorf("%s", answer.Body)
	}
}
