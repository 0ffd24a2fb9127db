package alerts_test

import (
	"os"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/patchbay-ai/patchbay/internal/plain/say"
	"github.com/patchbay-ai/patchbay/internal/wings/alerts"
)

// The receivers understand exactly these forms; UPDATE=1 writes them anew.
func TestMessagesHaveTheFormOfTheirReceiver(t *testing.T) {
	t.Parallel()
	m := alerts.NewMessage("breaker", alerts.Firing, say.New("alert.breaker", "instance", "<m>&*x*@10.0.0.1:8000", "service", "chat"))
	at := time.Date(2026, 11, 18, 9, 0, 0, 0, time.UTC)
	m.Severity, m.Subject, m.Since, m.Time, m.Gateway = "critical", "chat/m@10.0.0.1:8000", at, at.Add(time.Minute), "gateway-1"
	for _, format := range []alerts.Format{alerts.Plain, alerts.Slack, alerts.Teams} {
		body := jsontext.Value(m.Body(format))
		if err := body.Indent(jsontext.WithIndent("  ")); err != nil {
			t.Fatal(err)
		}
		name := "testdata/" + format.String() + ".json"
		if os.Getenv("UPDATE") != "" {
			if err := os.WriteFile(name, append(body, '\n'), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if string(body)+"\n" != string(want) {
			t.Errorf("%s:\n%s\nwant\n%s", format, body, want)
		}
	}
}
