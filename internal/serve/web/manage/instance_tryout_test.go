package manage_test

import (
	"context"
	"net/http"
	"strings"
	"testing"

	"github.com/patchbay-ai/patchbay/internal/access"
	"github.com/patchbay-ai/patchbay/internal/gateway/gatewaytest"
	"github.com/patchbay-ai/patchbay/internal/hosts/residency"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
	"github.com/patchbay-ai/patchbay/internal/testing/simulator"
	"github.com/patchbay-ai/patchbay/internal/testing/simulator/engine"
)

const (
	testPath     = "/api/config/instance/test/"
	discoverPath = "/api/config/discover"
)

func TestInstancesAreTestedByARealCallOfEveryServiceType(t *testing.T) {
	t.Parallel()
	r, b := gatewaytest.StartService(t)
	for _, service := range schema.ServiceTypes() {
		for name, body := range map[string]string{
			"stored": `{"instanceId":"m@` + b.URL() + `"}`,
			"typed":  `{"instance":{"name":"other","baseUrl":"` + b.URL() + `","apiKey":"typed-key"}}`,
		} {
			before := len(b.Requests())
			reply := r.API(http.MethodPost, testPath+service.String(), body).Is(t, 200, `"ok":true`, `"httpStatus":200`, `"reply":"`)
			if isStream := strings.Contains(reply.Body, "firstTokenMs"); isStream != (service == schema.Chat) {
				t.Errorf("%s %s: %s", service, name, reply.Body)
			}
			requests := b.Requests()
			if len(requests) != before+1 {
				t.Fatalf("%s %s: %d calls", service, name, len(requests)-before)
			}
			if key := requests[before].Header.Get("Authorization"); (key == "Bearer typed-key") != (name == "typed") {
				t.Errorf("%s %s: key %q", service, name, key)
			}
		}
	}
	if i := r.Instances("m")[0]; i.Calls() != 0 {
		t.Errorf("the instance counted %d calls", i.Calls())
	}
	if got := r.Control.Version(); got != 1 {
		t.Errorf("version %d", got)
	}
}

func TestTestsSayWhatIsWrong(t *testing.T) {
	t.Parallel()
	r, b := gatewaytest.StartOne(t)
	stored := `{"instanceId":"m@` + b.URL() + `"}`
	b.Script(simulator.Step{Status: 404, Body: `{"error":{"message":"the model does not exist"}}`, Header: gatewaytest.ContentType("application/json")})
	r.API(http.MethodPost, testPath+"chat", stored).Is(t, 200, `"ok":false`, `"httpStatus":404`, "the model does not exist", `"url":"`+b.URL()+`/v1/chat/completions"`)
	r.API(http.MethodPost, testPath+"chat", `{"instance":{"name":"m","baseUrl":"`+b.URL()+`/v1/chat/completions"}}`).Is(t, 200, `"ok":false`, `"url":"`+b.URL()+`/v1/chat/completions/v1/chat/completions"`)
	r.API(http.MethodPost, testPath+"chat", `{"instance":{"name":"m","baseUrl":"`+simulator.DownURL+`"}}`).Is(t, 200, `"ok":false`, `"cause":"connection_refused"`, "could not be reached")
	b.Script(simulator.Step{Stop: simulator.StopReset, After: 2})
	r.API(http.MethodPost, testPath+"chat", stored).Is(t, 200, `"ok":false`, `"errorCode":"upstream_stream_truncated"`)
	for body, part := range map[string]string{
		`{}`:                           "instanceId, instance",
		`{"instanceId":"nobody@x"}`:    "instanceId",
		`{"instance":{"name":"m"}}`:    "instance.baseUrl",
		`{"instance":{"baseUrl":"x"}}`: "instance.baseUrl",
		`{"instance":{"name":"m","baseUrl":"http://x","adapter":"nothing"}}`: "instance.adapter",
	} {
		if reply := r.API(http.MethodPost, testPath+"chat", body); reply.Status != 400 && reply.Status != 404 || !strings.Contains(reply.Message, part) {
			t.Errorf("%s: %d %s", body, reply.Status, reply.Message)
		}
	}
}

func TestStoredKeysAreSentToNoTypedAddress(t *testing.T) {
	t.Parallel()
	b, other := gatewaytest.StartBackend(t), gatewaytest.StartBackend(t)
	r := gatewaytest.Start(t, gatewaytest.ChatYAML(gatewaytest.Instance("m", b.URL(), "api-key: stored-key")))
	stored := `"instanceId":"m@` + b.URL() + `"`
	r.API(http.MethodPost, testPath+"chat", `{`+stored+`,"instance":{"baseUrl":"`+other.URL()+`"}}`).Is(t, 400, "apiKey")
	r.API(http.MethodPost, testPath+"chat", `{`+stored+`,"instance":{"baseUrl":"`+other.URL()+`","apiKey":"`+access.Mask("stored-key")+`"}}`).Is(t, 400, "apiKey")
	r.API(http.MethodPost, discoverPath, `{"baseUrl":"`+other.URL()+`"}`).Is(t, 200)
	for _, request := range append(other.Requests(), other.Probes()...) {
		if key := request.Header.Get("Authorization"); key != "" {
			t.Errorf("%s was sent %q", request.Path, key)
		}
	}
	r.API(http.MethodPost, testPath+"chat", `{`+stored+`,"instance":{"baseUrl":"`+other.URL()+`","apiKey":"typed-key"}}`).Is(t, 200, `"ok":true`)
	r.API(http.MethodPost, testPath+"chat", `{`+stored+`,"instance":{"upstreamModel":"x"}}`).Is(t, 200, `"ok":true`)
	if key := b.Requests()[0].Header.Get("Authorization"); key != "Bearer stored-key" {
		t.Errorf("its own address was sent %q", key)
	}
}

func TestATestEndsWhenTheCallerLeaves(t *testing.T) {
	t.Parallel()
	r, b := gatewaytest.StartOne(t, simulator.Step{Hang: true})
	ctx, cancel := context.WithCancel(gatewaytest.Deadline(t))
	defer cancel()
	left := make(chan struct{})
	go func() {
		defer close(left)
		response, err := r.Client.Do(r.Request(ctx, http.MethodPost, testPath+"chat", `{"instanceId":"m@`+b.URL()+`"}`))
		if err == nil {
			_ = response.Body.Close()
		}
	}()
	if err := b.WaitRequests(gatewaytest.Deadline(t), 1); err != nil {
		t.Fatal(err)
	}
	cancel()
	<-left
	if err := b.WaitCancelled(gatewaytest.Deadline(t), 1); err != nil {
		t.Fatal(err)
	}
}

func TestTestingAndDiscoveringTakeWritePermission(t *testing.T) {
	t.Parallel()
	r := gatewaytest.Start(t, gatewaytest.SecuredYAML())
	for path, body := range map[string]string{testPath + "chat": `{"instance":{"name":"m","baseUrl":"http://127.0.0.1:1"}}`, discoverPath: `{"baseUrl":"http://127.0.0.1:1"}`} {
		if got := r.Do(http.MethodPost, path, body, "Authorization", "Bearer viewer-token").Status; got != http.StatusForbidden {
			t.Errorf("%s by a viewer: %d", path, got)
		}
		r.API(http.MethodPost, path, body, "Authorization", "Bearer operator-token").Is(t, 200)
		r.API(http.MethodPost, path+"?dryRun=true", body, "Authorization", "Bearer operator-token").Is(t, 400, "dryRun")
	}
}

func TestModelsOfABackendAreDiscovered(t *testing.T) {
	t.Parallel()
	b, err := simulator.Start(simulator.Options{Models: []string{"m", "bge-m3", "whisper-1"}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.Close)
	r := gatewaytest.Start(t, gatewaytest.PoolYAML(b))
	r.API(http.MethodPost, discoverPath, `{"baseUrl":"`+b.URL()+`","adapter":"openai"}`).Is(t, 200, `"adapter":"openai"`,
		`{"id":"m","serviceType":"chat","exists":true}`, `{"id":"bge-m3","serviceType":"embedding","exists":false}`, `{"id":"whisper-1","serviceType":"stt","exists":false}`)
	r.API(http.MethodPost, discoverPath, `{"baseUrl":"`+b.URL()+`/v1","adapter":"vllm"}`).Is(t, 200, `"adapter":"vllm"`, `"id":"m"`)
	for adapter, loads := range map[string]string{"ollama": "true", "gemini": "false", "anthropic": "false"} {
		r.API(http.MethodPost, discoverPath, `{"baseUrl":"`+b.URL()+`","adapter":"`+adapter+`"}`).Is(t, 200, `"adapter":"`+adapter+`"`, `"id":"m"`, `"loads":`+loads)
	}
	r.API(http.MethodPost, discoverPath, `{"baseUrl":"`+b.URL()+`"}`).Is(t, 200, `"id":"m"`)
	r.API(http.MethodPost, discoverPath, `{"baseUrl":"`+simulator.DownURL+`"}`).Is(t, 200, `"adapter":"","models":[],"errors":["GET /api/tags`)
	r.API(http.MethodPost, discoverPath, `{"baseUrl":"ftp://x"}`).Is(t, 400, "baseUrl")
	r.API(http.MethodPost, discoverPath, `{"baseUrl":"http://x","adapter":"nothing"}`).Is(t, 400, "adapter")
	r.API(http.MethodPost, discoverPath, `{}`).Is(t, 400, "baseUrl")
}

// The test of an instance whose model sleeps wakes it up as a request does, and says how long it
// waited. One that is not in force wakes nobody.
func TestTheTestOfAnInstanceWakesItsModel(t *testing.T) {
	t.Parallel()
	b, err := simulator.Start(simulator.Options{Models: []string{"m"}, Kind: simulator.VLLM, Engine: &engine.Spec{Block: 16, Cache: 1600, Wake: 0.2, Decode: 0.0001}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.Close)
	r := gatewaytest.Start(t, gatewaytest.PolicyYAML("residency: {enabled: true}, "+gatewaytest.NoBreakerNoChecks, gatewaytest.Instance("m", b.URL(), "adapter: vllm")))
	host := r.Instances("m")[0].Resident().Place().Host().Name()
	stored := `"instanceId":"m@` + b.URL() + `"`
	for body, wakes := range map[string]bool{
		`{` + stored + `}`:                             true,
		`{` + stored + `,"instance":{"weight":3}}`:     true,
		`{` + stored + `,"instance":{"name":"other"}}`: false,
	} {
		if err := r.Residency.Load(t.Context(), host, "m", residency.Settings{}); err != nil {
			t.Fatal(err)
		}
		if err := r.Residency.Sleep(t.Context(), host, "m"); err != nil {
			t.Fatal(err)
		}
		reply := r.API(http.MethodPost, testPath+"chat", body)
		if strings.Contains(reply.Body, `"ok":true`) != wakes || strings.Contains(reply.Body, `"heldMs"`) != wakes || b.Engine().State().IsAsleep == wakes {
			t.Errorf("%s: asleep %t, %s", body, b.Engine().State().IsAsleep, reply.Body)
		}
	}
	r.API(http.MethodPost, testPath+"chat", `{`+stored+`}`).Is(t, 200, `"ok":true`)
	if reply := r.API(http.MethodPost, testPath+"chat", `{`+stored+`}`).Is(t, 200, `"ok":true`); strings.Contains(reply.Body, "heldMs") {
		t.Errorf("a model that is in memory is waited for: %s", reply.Body)
	}
	if err := r.Residency.Sleep(t.Context(), host, "m"); err != nil {
		t.Errorf("the test has kept its model: %v", err)
	}
}
