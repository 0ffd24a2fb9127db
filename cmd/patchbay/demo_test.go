package main

import (
	"net/http"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/patchbay-ai/patchbay/internal/gateway/gatewaytest"
	"github.com/patchbay-ai/patchbay/internal/wings/demo"
)

// A newcomer who starts the demo finds something on every page, without a key or a token.
func TestTheDemoShowsItAll(t *testing.T) {
	t.Parallel()
	c := startChild(t, "demo", "--listen", "127.0.0.1:0", "--set", "log.format=json")
	c.waitFor("Ctrl-C stops")
	found := regexp.MustCompile(`API base +(\S+)/v1`).FindStringSubmatch(c.stderr.String())
	if found == nil {
		t.Fatal(c.stderr.String())
	}
	ask := func(path string, headers ...string) gatewaytest.Reply {
		request, err := http.NewRequestWithContext(gatewaytest.Deadline(t), http.MethodGet, found[1]+path, http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		for i := 0; i < len(headers); i += 2 {
			request.Header.Set(headers[i], headers[i+1])
		}
		response, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Do(request)
		if err != nil {
			t.Fatal(err)
		}
		return gatewaytest.ReadReply(response)
	}
	for path, wants := range map[string][]string{
		"/api/monitoring/spend?by=tenant": {`"priced":true`, `"name":"acme","cost":[1-9]`, `"name":"globex","cost":[1-9]`},
		"/api/monitoring/spend?by=user":   {`"name":"ann","cost":[1-9]`},
		"/api/monitoring/budgets":         {`"of":"key/globex-nightly"`, `"of":"tenant/acme","window":"DAY","unit":"cost","limit":\d+,"used":[1-9]`},
		"/api/auth/keys":                  {`"id":"acme-shop","origin":"file","tenant":"acme"`, `"source":"config","lastUsedAt":"2\d+-.*","callsToday":[1-9]`},
		"/api/batches":                    {`"keyId":"globex-nightly"`, `"total":60,"completed":[1-9]`},
		"/api/models/residency":           {`"model":"demo-day","group":"gpu"`, `"model":"demo-night","group":"gpu","state":"loaded"`},
	} {
		for _, want := range wants {
			pattern := regexp.MustCompile(want)
			gatewaytest.Eventually(t, path+" has "+want, func() bool { return pattern.MatchString(ask(path).Body) })
		}
	}
	models := ask("/v1/models", "Authorization", "Bearer "+demo.KeyOf("globex-nightly")).Body
	if !strings.Contains(models, "demo-night") || strings.Contains(models, "demo-chat") {
		t.Errorf("the models of a key with one model: %s", models)
	}
	c.signal(syscall.SIGTERM)
	c.exits(exitOK)
}
