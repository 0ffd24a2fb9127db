package manage_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/patchbay-ai/patchbay/internal/gatewaytest"
)

func TestErrorsNameEachField(t *testing.T) {
	r, b := gatewaytest.StartOne(t)
	for body, want := range map[string]string{
		`{"name":"n","baseUrl":"ftp://x","weight":-1}`: `{"field":"weight"`,
		`{"name":"n","baseUrl":"ftp://x"}`:             `{"field":"baseUrl"`,
		`{"name":"n","baseUrl":"http://x","more":1}`:   `{"field":"more"`,
		`{"name":"m","baseUrl":"` + b.URL() + `"}`:     `{"field":"baseUrl","message":"the instance`,
	} {
		r.API(http.MethodPost, gatewaytest.AddInstancePath+"chat", body).Is(t, 400, `"data":{"errors":[`, want)
	}
	r.API(http.MethodPut, gatewaytest.UpdateInstancePath+"chat", `{"instanceId":"m@`+b.URL()+`","instance":{"weight":-1}}`).Is(t, 400, `{"field":"instance.weight"`)
	if quota := r.Do(http.MethodPut, "/api/config/quota", `{"failOpen":7}`); !strings.Contains(quota.Body, `"data":{"errors":[{"field":"failOpen"`) {
		t.Errorf("%s", quota.Body)
	}
	r.API(http.MethodDelete, gatewaytest.VersionsPath+"/999", "").Is(t, 404, `"data":null`)
}
