package proxy_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/patchbay-ai/patchbay/internal/gateway/gatewaytest"
	"github.com/patchbay-ai/patchbay/internal/testing/simulator"
)

// At DEBUG the log tells the steps of each request under its id, and at INFO none of them.
func TestDebugTellsTheStepsOfARequest(t *testing.T) {
	t.Parallel()
	broken, well := gatewaytest.StartBackend(t), gatewaytest.StartBackend(t)
	broken.ScriptForever(simulator.Step{Status: 503})
	r := gatewaytest.Start(t, gatewaytest.ChatYAML(gatewaytest.Instance("m", broken.URL(), "tier: 0"), gatewaytest.Instance("m", well.URL(), "tier: 1")))
	steps := func(id string) string {
		var lines []string
		for line := range strings.Lines(r.Logs.String()) {
			if strings.Contains(line, `"logger":"proxy"`) && strings.Contains(line, `"request_id":"`+id+`"`) {
				lines = append(lines, line)
			}
		}
		return strings.Join(lines, "")
	}
	r.Chat(gatewaytest.PlainHi, "X-Request-Id", "verbose").Succeeds(t)
	told := steps("verbose")
	for _, want := range []string{
		`"msg":"an instance was chosen"`, `"model":"m"`, `"ready":1,"instances":2`, `"instance":"m@` + broken.URL() + `"`,
		`"msg":"calling","request_id":"verbose","attempt":1`, `"msg":"the call failed"`, `"status":503`, `"error_code":"upstream_error"`, `"another_may_serve":true`,
		`"msg":"calling","request_id":"verbose","attempt":2`, `"msg":"the answer begins"`, `"status":200`,
	} {
		if !strings.Contains(told, want) {
			t.Errorf("%s is not told:\n%s", want, told)
		}
	}
	r.Do(http.MethodPost, "/actuator/loggers/proxy", `{"configuredLevel":"INFO"}`)
	r.Chat(gatewaytest.PlainHi, "X-Request-Id", "silent").Succeeds(t)
	if told := steps("silent"); told != "" {
		t.Errorf("at INFO: %s", told)
	}
}
