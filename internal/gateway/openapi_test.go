package gateway_test

import (
	"testing"

	"github.com/patchbay-ai/patchbay/internal/gateway"
	"github.com/patchbay-ai/patchbay/internal/gateway/gatewaytest"
)

func TestTheDocumentIsTheOneThatAGatewayServes(t *testing.T) {
	r, _ := gatewaytest.StartOne(t)
	served := r.Do("GET", "/openapi.json", "").Succeeds(t).Body
	printed, err := gateway.OpenAPI(gatewaytest.Version, nil)
	if err != nil {
		t.Fatal(err)
	}
	if string(printed) != served {
		t.Errorf("%d bytes are printed and %d served, or they differ", len(printed), len(served))
	}
}
