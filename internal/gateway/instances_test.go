package gateway_test

import (
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"

	"github.com/patchbay-ai/patchbay/internal/gateway"
	"github.com/patchbay-ai/patchbay/internal/gateway/gatewaytest"
	"github.com/patchbay-ai/patchbay/internal/testing/simulator"
)

// onInstance is an operation that takes the identifier of an instance.
type onInstance struct {
	method, path string
	body         bool     // the identifier is a member of the body
	query        []string // the parameters of the query that are known
}

// onInstances returns the operations that take the identifier of an instance, as the OpenAPI document
// describes them.
func onInstances(t *testing.T) (all []onInstance) {
	t.Helper()
	text, err := gateway.OpenAPI(gatewaytest.Version, nil)
	if err != nil {
		t.Fatal(err)
	}
	type schemaOf struct {
		Ref        string `json:"$ref"`
		Properties map[string]struct {
			ReadOnly bool `json:"readOnly"`
		} `json:"properties"`
	}
	var document struct {
		Paths map[string]map[string]struct {
			Parameters []struct {
				Name string `json:"name"`
				In   string `json:"in"`
			} `json:"parameters"`
			RequestBody struct {
				Content map[string]struct {
					Schema schemaOf `json:"schema"`
				} `json:"content"`
			} `json:"requestBody"`
		} `json:"paths"`
		Components struct {
			Schemas map[string]schemaOf `json:"schemas"`
		} `json:"components"`
	}
	if err := json.Unmarshal(text, &document); err != nil {
		t.Fatal(err)
	}
	for path, methods := range document.Paths {
		for method, operation := range methods {
			one := onInstance{method: strings.ToUpper(method), path: path}
			for _, parameter := range operation.Parameters {
				if parameter.In == "query" {
					one.query = append(one.query, parameter.Name)
				}
			}
			schema := operation.RequestBody.Content["application/json"].Schema
			if schema.Ref != "" {
				schema = document.Components.Schemas[schema.Ref[strings.LastIndexByte(schema.Ref, '/')+1:]]
			}
			member, has := schema.Properties["instanceId"]
			one.body = has && !member.ReadOnly
			isQuery := func(name string) bool { return slices.Contains(one.query, name) }
			if one.body || isQuery("instanceId") || isQuery("instance") || isQuery("modelName") {
				all = append(all, one)
			}
		}
	}
	return all
}

// ask asks for the operation on an instance, without a change if the operation has dry runs.
func (o *onInstance) ask(r *gatewaytest.Gateway, name, baseURL string) gatewaytest.Reply {
	id := name + "@" + baseURL
	query := url.Values{}
	for parameter, value := range map[string]string{"instanceId": id, "instance": id, "modelName": name, "baseUrl": baseURL, "dryRun": "true", "service": "chat"} {
		if slices.Contains(o.query, parameter) {
			query.Set(parameter, value)
		}
	}
	body := ""
	if o.body {
		members := map[string]any{"instanceId": id}
		switch {
		case strings.Contains(o.path, "circuit-breaker"):
			members["state"] = "AUTO"
		case strings.Contains(o.path, "/update/"):
			members["instance"] = map[string]any{"weight": 2}
		}
		text, _ := json.Marshal(members)
		body = string(text)
	}
	return r.Do(o.method, strings.Replace(o.path, "{serviceType}", "chat", 1)+"?"+query.Encode(), body, "X-Patchbay-Said", "true")
}

// Each operation that takes an instance knows those that are discovered or made of adapters: it does
// what it does with a written one, or gives the reason and the remedy.
func TestOperationsKnowInstancesOfAllOrigins(t *testing.T) {
	t.Parallel()
	gatewaytest.Needs(t, "loras")
	b := startAdapted(t, nil)
	r := gatewaytest.Start(t, gatewaytest.PolicyYAML("health-check: {interval: 1s}", "{models: discover, base-url: '"+b.URL()+"', adapter: vllm}",
		gatewaytest.Instance("written", b.URL(), "adapter: vllm, upstream-model: m"))+"loras: {"+adapters("l1")+"}\n")
	gatewaytest.Eventually(t, "the models are discovered", func() bool { return len(r.Instances("m")) == 1 })
	refusals := map[string][]string{
		"m":  {"manage.instance_discovered", "model.not_kept"},
		"l1": {"manage.instance_adapter"},
		"*":  {"manage.instance_discovers", "field.models_test"},
	}
	found := map[string]bool{}
	for _, operation := range onInstances(t) {
		if strings.HasPrefix(operation.path, "/api/demo/") {
			continue // only the demo serves it
		}
		found[operation.method+" "+operation.path] = operation.body || slices.Contains(operation.query, "modelName")
		for name, codes := range refusals {
			a := operation.ask(r, name, b.URL())
			isRefused := slices.ContainsFunc(codes, func(code string) bool { return strings.Contains(a.Body, `"`+code+`"`) })
			if a.Status >= 300 && (a.Status != http.StatusBadRequest || !isRefused) || strings.Contains(a.Body, "not found") {
				t.Errorf("%s %s of %q: %d %s", operation.method, operation.path, name, a.Status, a.Body)
			}
		}
		if a := operation.ask(r, "other", b.URL()); found[operation.method+" "+operation.path] && a.Status != http.StatusNotFound {
			t.Errorf("%s %s of an unknown instance: %d %s", operation.method, operation.path, a.Status, a.Body)
		}
	}
	maps.DeleteFunc(found, func(_ string, isNamed bool) bool { return !isNamed })
	const prefix = "/api/config/instance/"
	for _, name := range []string{
		"GET " + prefix + "info/{serviceType}", "DELETE " + prefix + "del/{serviceType}", "PUT " + prefix + "update/{serviceType}",
		"POST " + prefix + "test/{serviceType}",
	} {
		if !found[name] {
			t.Errorf("%s is not among %v", name, slices.Sorted(maps.Keys(found)))
		}
	}
	if len(found) < 7 {
		t.Errorf("found %v", slices.Sorted(maps.Keys(found)))
	}
}

// The models that an instance has found are those of its instances in force, also under the short names
// of files.
func TestAnInstanceNamesTheModelsThatItFound(t *testing.T) {
	t.Parallel()
	b, err := simulator.Start(simulator.Options{Models: []string{"/models/n.gguf", "m"}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.Close)
	r := gatewaytest.Start(t, gatewaytest.PolicyYAML("health-check: {enabled: false}", "{models: discover, base-url: '"+b.URL()+"', adapter: llamacpp}"))
	gatewaytest.Eventually(t, "the models are discovered", func() bool { return len(r.Instances("n")) == 1 })
	r.API(http.MethodGet, "/api/config/instance/info/chat?modelName=*&baseUrl="+url.QueryEscape(b.URL()), "").Is(t, 200, `"models":["n","m"]`)
	r.API(http.MethodGet, "/api/config/instance/info/chat?modelName=n&baseUrl="+url.QueryEscape(b.URL()), "").Is(t, 200, `"upstreamModel":"/models/n.gguf"`)
	r.API(http.MethodGet, "/api/config/type/chat/models", "").Is(t, 200, `"data":["m","n"]`)
	r.API(http.MethodPost, "/api/config/discover", `{"baseUrl":"`+b.URL()+`","adapter":"llamacpp"}`).Is(t, 200, `"id":"/models/n.gguf","name":"n","serviceType":"chat","exists":true`)
}
