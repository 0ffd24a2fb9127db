package manage_test

import (
	"strings"
	"testing"

	"github.com/patchbay-ai/patchbay/internal/gateway/gatewaytest"
)

// ADMIN reads a reference as it was written, others a mask. What was read may be
// sent back; any other text is a literal.
func TestReferencesInTheManagementAPI(t *testing.T) {
	t.Parallel()
	b := gatewaytest.StartBackend(t)
	r := gatewaytest.Start(t, gatewaytest.ChatYAML(gatewaytest.Instance("m", b.URL(), "api-key: '${NO_SUCH_VARIABLE:sk-default}'"))+gatewaytest.SecuredYAML())
	if document := r.Do("GET", "/openapi.json", "").Succeeds(t).Body; !strings.Contains(document, `"apiKey":{"type":"string"}`) {
		t.Error("the document does not say that a key is a text")
	}
	admin, operator := []string{"Authorization", "Bearer admin-token"}, []string{"Authorization", "Bearer operator-token"}
	const shown = `"apiKey":"${NO_SUCH_VARIABLE:sk-default}"`
	whole := r.API("GET", gatewaytest.TypesPath+"chat", "", admin...).Is(t, 200, shown, `"references":["apiKey"]`).Data
	r.API("PUT", gatewaytest.TypesPath+"chat", string(whole), admin...).Is(t, 200, "Nothing changed")
	masked := r.API("GET", gatewaytest.TypesPath+"chat", "", operator...).Is(t, 200, `"apiKey":"****"`)
	if strings.Contains(masked.Body, "sk-default") {
		t.Errorf("an operator sees %s", masked.Body)
	}
	r.API("PUT", gatewaytest.TypesPath+"chat", string(masked.Data), operator...).Is(t, 200, "Nothing changed")
	id := `{"instanceId":"m@` + b.URL() + `","instance":`
	r.API("PUT", gatewaytest.UpdateInstancePath+"chat", id+`{"apiKey":"${NO_SUCH_VARIABLE:sk-default}","weight":2}}`, admin...).Is(t, 200)
	r.API("GET", gatewaytest.InstanceInfoPath+"chat?modelName=m&baseUrl="+b.URL(), "", admin...).Is(t, 200, shown, `"references":["apiKey"]`)
	r.API("PUT", gatewaytest.UpdateInstancePath+"chat", id+`{"baseUrl":"http://127.0.0.2:1","apiKey":"${NO_SUCH_VARIABLE:sk-default}"}}`, operator...).Is(t, 400, "must be given again")

	r.API("PUT", gatewaytest.UpdateInstancePath+"chat", id+`{"apiKey":"${file:/etc/hostname}"}}`, operator...).Is(t, 200)
	literal := r.API("GET", gatewaytest.InstanceInfoPath+"chat?modelName=m&baseUrl="+b.URL(), "", admin...).Is(t, 200, `"apiKey":"${file:/etc/hostname}"`)
	if strings.Contains(literal.Body, "references") {
		t.Errorf("text of the API became a reference: %s", literal.Body)
	}
	r.Chat(gatewaytest.PlainHi).Succeeds(t)
	if got := gatewaytest.OnlyRequest(t, b).Header.Get("Authorization"); got != "Bearer ${file:/etc/hostname}" {
		t.Errorf("sent: %s", got)
	}
}

// Reads show the adapter that is in force; sending it back does not fix it.
func TestInheritedAdaptersAreShown(t *testing.T) {
	t.Parallel()
	r := gatewaytest.Start(t, "services: {chat: {adapter: vllm, instances: [{name: m, base-url: 'http://127.0.0.1:1'}]}}\n")
	info := r.API("GET", gatewaytest.InstanceInfoPath+"chat?modelName=m&baseUrl=http://127.0.0.1:1", "").Is(t, 200, `"adapter":"vllm"`)
	r.API("GET", gatewaytest.InstancesPath+"chat", "").Is(t, 200, `"adapter":"vllm"`)
	r.API("GET", gatewaytest.VersionsPath+"/1", "").Is(t, 200, `"adapter":"vllm"`)
	whole := r.API("GET", gatewaytest.TypesPath+"chat", "").Is(t, 200).Data
	r.API("PUT", gatewaytest.TypesPath+"chat", string(whole)).Is(t, 200, "Nothing changed")
	r.API("PUT", gatewaytest.UpdateInstancePath+"chat", `{"instanceId":"m@http://127.0.0.1:1","instance":`+string(info.Data)+`}`).Is(t, 200, "Nothing changed")
	r.API("PUT", gatewaytest.TypesPath+"chat", `{"adapter":"ollama"}`).Is(t, 200)
	r.API("GET", gatewaytest.InstancesPath+"chat", "").Is(t, 200, `"adapter":"ollama"`)
	r.API("PUT", gatewaytest.UpdateInstancePath+"chat", `{"instanceId":"m@http://127.0.0.1:1","instance":{"adapter":"vllm"}}`).Is(t, 200, `"changed":true`)
	r.API("GET", gatewaytest.InstancesPath+"chat", "").Is(t, 200, `"adapter":"vllm"`)
}

// What would make every request fail is refused when it is saved.
func TestInstancesThatCannotBeCalledAreNotSaved(t *testing.T) {
	t.Parallel()
	r := gatewaytest.Start(t, "")
	for _, header := range []string{"Accept-Encoding", "connection", "Keep-Alive", "TE", "Trailer", "Transfer-Encoding", "Upgrade", "Host", "Content-Length", "content-encoding", "Expect"} {
		r.API("POST", gatewaytest.AddInstancePath+"chat", `{"name":"m","baseUrl":"http://127.0.0.1:1","headers":{"`+header+`":"x"}}`).Is(t, 400, header, "the gateway itself decides")
	}
	r.API("POST", gatewaytest.AddInstancePath+"chat", `{"name":"m","baseUrl":"http://127.0.0.1:1","path":"/größe"}`).Is(t, 400, "path: must be ASCII")
	r.API("POST", gatewaytest.AddInstancePath+"chat", `{"name":"*","baseUrl":"http://127.0.0.1:1"}`).Is(t, 400, "name: must not be *")
	r.API("PUT", gatewaytest.TypesPath+"chat", `{"instances":[{"name":"m","baseUrl":"http://127.0.0.1:1","path":"/é"}]}`).Is(t, 400, "instances[0].path")
	r.API("GET", gatewaytest.VersionsPath+"/current", "").Is(t, 200, `"data":1`)
}
