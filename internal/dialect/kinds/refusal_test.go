package kinds

import (
	"errors"
	"io/fs"
	"path/filepath"
	"testing"

	"github.com/patchbay-ai/patchbay/internal/dialect/wire"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
)

// A transcript of any dialect that has an error and no answer is about a request which
// the dialect cannot express. The client is told so with the place in its request.
func TestRefusedRequestsNameThePlace(t *testing.T) {
	dialects := map[string]bool{}
	err := filepath.WalkDir("testdata/golden", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || filepath.Ext(path) != ".txt" {
			return err
		}
		g := readGolden(t, path)
		if !g.has("error") || g.has("answer") || g.settings["door"] != "" {
			return nil
		}
		dialects[g.settings["kind"]] = true
		var service schema.ServiceType
		if err := service.UnmarshalText([]byte(g.settings["service"])); err != nil {
			t.Fatal(err)
		}
		target, req := g.target(t, service), g.request(t, service)
		refusal := target.RefuseRequest(req, nil)
		if refusal == nil {
			refusal = target.Unified().Call(req, target, new(wire.Call))
		}
		var known *schema.Error
		if !errors.As(refusal, &known) || known.Param == nil || known.Type != schema.TypeInvalidRequest {
			t.Errorf("%s: %v, want an error of the request with its place", path, refusal)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	// Every dialect that is translated has requests which it cannot express.
	for _, kind := range table {
		translated := false
		for service, route := range kind.Routes {
			translated = translated || service == schema.Chat && route.Adapter != chatRoute.Adapter
		}
		if translated && !dialects[kind.Name] {
			t.Errorf("no transcript in testdata/golden/%s has a refused request", kind.Name)
		}
	}
}
