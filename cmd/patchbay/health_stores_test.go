package main

import (
	"fmt"
	"net/http"
	"path/filepath"
	"testing"

	"github.com/go-json-experiment/json"

	"github.com/patchbay-ai/patchbay/internal/gateway/gatewaytest"
)

// TestServeShowsItsFile: the program itself watches the file, and says so.
func TestServeShowsItsFile(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "patchbay.yaml")
	gatewaytest.WriteFile(t, file, "limits: {max-attempts: 2}\n")
	c := serving(t, "--config", file, "--data-dir", t.TempDir())
	status := func() string {
		var view struct {
			Status string `json:"status"`
		}
		answer := c.ask(http.MethodGet, "/actuator/health/configFile", "")
		_ = json.Unmarshal([]byte(answer.Body), &view)
		return fmt.Sprint(answer.Status, " ", view.Status)
	}
	if got := status(); got != "200 UP" {
		t.Errorf("%s", got)
	}
	gatewaytest.WriteFile(t, file, "limits: {max-attempts: many}\n")
	gatewaytest.Eventually(t, "the file is bad", func() bool { return status() == "200 DEGRADED" })
	gatewaytest.WriteFile(t, file, "limits: {max-attempts: 3}\n")
	gatewaytest.Eventually(t, "the file is good again", func() bool { return status() == "200 UP" })
}
