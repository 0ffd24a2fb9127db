package catalog_test

import (
	"testing"

	"github.com/patchbay-ai/patchbay/internal/testing/gatewaytest"
)

func TestModelsInTheShapeOfOllamasAPI(t *testing.T) {
	t.Parallel()
	b := gatewaytest.StartBackend(t)
	r := gatewaytest.Start(t, gatewaytest.EveryService(b))
	tags := gatewaytest.DecodeObject(t, r.Do("GET", "/ollama/api/tags", "").Succeeds(t).Body)
	if list, _ := tags["models"].([]any); len(list) != 1 || gatewaytest.At(t, tags, "models/0/name") != "m" {
		t.Errorf("%v", tags)
	}
	if ps := gatewaytest.DecodeObject(t, r.Do("GET", "/ollama/api/ps", "").Succeeds(t).Body); gatewaytest.At(t, ps, "models/0/model") != "m" {
		t.Errorf("%v", ps)
	}
	show := gatewaytest.DecodeObject(t, r.Do("POST", "/ollama/api/show", `{"model":"m:latest"}`).Succeeds(t).Body)
	if gatewaytest.At(t, show, "capabilities/0") != "completion" || gatewaytest.At(t, show, "capabilities/2") != "embedding" {
		t.Errorf("%v", show)
	}
	if version := gatewaytest.DecodeObject(t, r.Do("GET", "/ollama/api/version", "").Succeeds(t).Body); version["version"] == "" {
		t.Errorf("%v", version)
	}
}
