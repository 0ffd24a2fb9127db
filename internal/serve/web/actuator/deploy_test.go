package actuator_test

import (
	"context"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
	"go.yaml.in/yaml/v3"

	"github.com/patchbay-ai/patchbay/internal/gateway/gatewaytest"
	"github.com/patchbay-ai/patchbay/internal/testing/simulator"
	"github.com/patchbay-ai/patchbay/internal/testing/simulator/engine"
)

const deployed = "../../../../deploy"

// expressions returns every query of the dashboard and of the alert rules.
func expressions(t *testing.T) map[string][]string {
	t.Helper()
	read := func(path string) []byte {
		content, err := os.ReadFile(filepath.Join(deployed, path))
		if err != nil {
			t.Fatal(err)
		}
		return content
	}
	var dashboard struct {
		UID        string `json:"uid"`
		Templating struct {
			List []struct {
				Name       string `json:"name"`
				Definition string `json:"definition"`
			} `json:"list"`
		} `json:"templating"`
		Panels []struct {
			Title   string `json:"title"`
			Type    string `json:"type"`
			Targets []struct {
				Expr string `json:"expr"`
			} `json:"targets"`
		} `json:"panels"`
	}
	if err := json.Unmarshal(read("grafana/patchbay.json"), &dashboard); err != nil {
		t.Fatal(err)
	}
	all := map[string][]string{}
	var variables []string
	for _, v := range dashboard.Templating.List {
		variables = append(variables, v.Name)
		if v.Definition != "" {
			all["variable "+v.Name] = append(all["variable "+v.Name], v.Definition)
		}
	}
	for _, want := range []string{"datasource", "service", "instance", "interval"} {
		if !slices.Contains(variables, want) {
			t.Errorf("the dashboard has no variable %s", want)
		}
	}
	for _, panel := range dashboard.Panels {
		if panel.Type != "row" && len(panel.Targets) == 0 {
			t.Errorf("the panel %s asks nothing", panel.Title)
		}
		for _, target := range panel.Targets {
			all["panel "+panel.Title] = append(all["panel "+panel.Title], target.Expr)
		}
	}
	var rules struct {
		Groups []struct {
			Rules []struct {
				Alert, Expr string
			}
		}
	}
	if err := yaml.Unmarshal(read("prometheus/alerts.yml"), &rules); err != nil {
		t.Fatal(err)
	}
	for _, group := range rules.Groups {
		for _, rule := range group.Rules {
			all["alert "+rule.Alert] = append(all["alert "+rule.Alert], rule.Expr)
		}
	}
	return all
}

var (
	metricName = regexp.MustCompile(`\b(?:model_router|jvm|system|process|go|http_server)_\w+`)
	byLabels   = regexp.MustCompile(`by \(([\w, ]+)\)`)
	selector   = regexp.MustCompile(`(\w+)(?:=~|!=|=|!~)"`)
)

// fleetYAML is a configuration with the strategy that has the most to tell, and a model that
// is loaded for requests.
func fleetYAML(t *testing.T) string {
	t.Helper()
	b, err := simulator.Start(simulator.Options{Kind: simulator.Ollama, Engine: &engine.Spec{Block: 16, Cache: 1600, Room: 1}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.Close)
	return "batches: {enabled: true}\nruns: {enabled: true}\n" + gatewaytest.PolicyYAML("load-balancer: least-time, residency: {enabled: true}", gatewaytest.Instance("m", b.URL(), "adapter: ollama"))
}

// Every metric and label that a dashboard or an alert asks for exists in the
// scrape of a gateway that has served something.
func TestDashboardAndAlertsAskForWhatExists(t *testing.T) {
	t.Parallel()
	gatewaytest.Needs(t, "signin", "runs")
	const provider = "oidc: [{name: corp, issuer: 'https://id.example.com', client-id: c, rules: [{claim: groups, value: ops, role: VIEWER}]}], "
	r := gatewaytest.Start(t, fleetYAML(t)+"server: {public-url: 'https://ai.example.com'}\n"+
		strings.Replace(gatewaytest.SecuredYAML(), "enabled: true,", "enabled: true, "+provider+"keys: [{id: k, key-sha256: "+gatewaytest.HashOf("secret")+", budgets: {day: {requests: 9}}}],", 1))
	r.Chat(gatewaytest.StreamHi, "Authorization", "Bearer secret").Succeeds(t)
	body := r.Do(http.MethodGet, "/actuator/prometheus", "", "Authorization", "Bearer admin-token").Succeeds(t).Body
	labels := map[string]bool{"le": true, "job": true, "gateway": true}
	for _, f := range r.Gateway.Actuator.Exposition().Families() {
		for _, label := range f.Labels {
			labels[label] = true
		}
	}
	for place, list := range expressions(t) {
		for _, expr := range list {
			names := metricName.FindAllString(expr, -1)
			if len(names) == 0 && !strings.Contains(expr, "up{") {
				t.Errorf("%s asks for no metric: %s", place, expr)
			}
			for _, name := range names {
				if !strings.Contains(body, "\n"+name+"{") && !strings.Contains(body, "\n"+name+" ") {
					t.Errorf("%s: there is no %s", place, name)
				}
			}
			for _, match := range byLabels.FindAllStringSubmatch(expr, -1) {
				for label := range strings.SplitSeq(match[1], ",") {
					if !labels[strings.TrimSpace(label)] {
						t.Errorf("%s: there is no label %s", place, label)
					}
				}
			}
			for _, match := range selector.FindAllStringSubmatch(expr, -1) {
				if !labels[match[1]] {
					t.Errorf("%s: there is no label %s", place, match[1])
				}
			}
		}
	}
}

// A real Prometheus, where one is installed, scrapes the gateway and has an
// answer to every query of the dashboard and of the alerts.
func TestPrometheusAnswersEveryPanel(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("starts a server")
	}
	prometheus, err := exec.LookPath("prometheus")
	if err != nil {
		t.Skip("prometheus is not installed")
	}
	r := gatewaytest.Start(t, fleetYAML(t))
	dir := t.TempDir()
	config := "scrape_configs: [{job_name: patchbay, scrape_interval: 1s, metrics_path: /actuator/prometheus, honor_labels: true, static_configs: [{targets: ['" + r.Address() + "']}]}]\n"
	if err := os.WriteFile(filepath.Join(dir, "prometheus.yml"), []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := listener.Addr().String()
	_ = listener.Close() // Prometheus cannot be told to pick a port
	ctx, cancel := context.WithCancel(t.Context())
	command := exec.CommandContext(ctx, prometheus, "--config.file="+filepath.Join(dir, "prometheus.yml"), "--storage.tsdb.path="+dir, "--web.listen-address="+address)
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = command.Wait() }()
	defer cancel()
	fill := strings.NewReplacer("$service", ".*", "$instance", ".*", "[$interval]", "[20s]", "[5m]", "[20s]")
	ask := func(expr string) int {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+"/api/v1/query?query="+url.QueryEscape(fill.Replace(expr)), nil)
		if err != nil {
			t.Fatal(err)
		}
		response, err := r.Client.Do(request)
		if err != nil {
			return -1
		}
		defer response.Body.Close()
		if response.StatusCode == http.StatusServiceUnavailable {
			return -1 // it is still starting
		}
		var result struct {
			Status string
			Error  string
			Data   struct {
				Result []any
			}
		}
		if err := json.UnmarshalRead(response.Body, &result, json.MatchCaseInsensitiveNames(true)); err != nil || result.Status != "success" {
			t.Errorf("%s: %v %s", expr, err, result.Error)
		}
		_ = response.Body.Close()
		return len(result.Data.Result)
	}
	gatewaytest.Eventually(t, "Prometheus has scraped twice", func() bool {
		r.Chat(gatewaytest.StreamHi).Succeeds(t)
		return ask("rate(model_router_requests_total[20s])") > 0
	})
	for place, list := range expressions(t) {
		for _, expr := range list {
			if strings.HasPrefix(place, "alert") {
				ask(expr) // may be empty, must be understood
			} else if !strings.HasPrefix(place, "variable") && ask(expr) == 0 {
				t.Errorf("%s shows nothing: %s", place, expr)
			}
		}
	}
}

func TestAlertRules(t *testing.T) {
	t.Parallel()
	promtool, err := exec.LookPath("promtool")
	if err != nil {
		t.Skip("promtool is not installed")
	}
	for _, args := range [][]string{{"check", "rules", "alerts.yml"}, {"test", "rules", "alerts_test.yml"}, {"check", "config", "prometheus.yml"}} {
		command := exec.CommandContext(t.Context(), promtool, args...)
		command.Dir = filepath.Join(deployed, "prometheus")
		if out, err := command.CombinedOutput(); err != nil {
			t.Errorf("promtool %v: %v\n%s", args, err, out)
		}
	}
}

// The table of metrics in the documentation is that of the program.
func TestMetricsAreDocumented(t *testing.T) {
	t.Parallel()
	content, err := os.ReadFile("../../../../docs/monitoring.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range gatewaytest.Start(t, "").Gateway.Actuator.Exposition().Families() {
		labels := strings.Join(f.Labels, ", ")
		row := "| `" + f.Name + "` | `" + f.Dotted + "` | " + f.Kind.String() + " | " + labels + " | " + f.Category.String() + " | " + f.Help + " |"
		if !strings.Contains(string(content), row+"\n") {
			t.Errorf("docs/monitoring.md lacks the row\n%s", row)
		}
	}
}
