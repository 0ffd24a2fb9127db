package manage_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/patchbay-ai/patchbay/internal/gateway/gatewaytest"
)

func TestDryRunsOfAnInstanceTellTheShares(t *testing.T) {
	t.Parallel()
	r := gatewaytest.Start(t, gatewaytest.ChatYAML(gatewaytest.Instance("m", "http://a"), gatewaytest.Instance("m", "http://b"), gatewaytest.Instance("n", "http://a")))
	update := func(query, settings string) gatewaytest.ManagementReply {
		return r.API(http.MethodPut, gatewaytest.UpdateInstancePath+"chat"+query, `{"instanceId":"m@http://a","instance":`+settings+`}`)
	}
	update("?dryRun=true", `{"weight":3}`).Is(t, 200, `"shares":[{"instanceId":"m@http://a","before":0.5,"after":0.75},{"instanceId":"m@http://b","before":0.5,"after":0.25}]`)
	update("?dryRun=true", `{"enabled":false}`).Is(t, 200, `"shares":[{"instanceId":"m@http://a","before":0.5,"after":0},{"instanceId":"m@http://b","before":0.5,"after":1}]`)
	r.API(http.MethodPost, gatewaytest.AddInstancePath+"chat?dryRun=true", `{"name":"n","baseUrl":"http://b","weight":4}`).Is(t, 200,
		`"shares":[{"instanceId":"n@http://a","before":1,"after":0.2},{"instanceId":"n@http://b","before":0,"after":0.8}]`)
	if reply := update("", `{"weight":3}`).Is(t, 200); strings.Contains(reply.Body, "shares") {
		t.Errorf("%s", reply.Body)
	}
}
