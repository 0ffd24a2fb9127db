package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"go.yaml.in/yaml/v3"

	"github.com/patchbay-ai/patchbay/internal/config"
	"github.com/patchbay-ai/patchbay/internal/gateway/gatewaytest"
)

// chart is the directory of the Helm chart.
const chart = deploy + "/helm/patchbay"

// everything has values that turn everything on that several gateways can have.
const everything = deploy + "/helm/everything.yaml"

// helm runs helm, or skips the test where it is neither installed nor built (make helm-check).
func helm(t *testing.T, args ...string) (string, error) {
	t.Helper()
	program, err := exec.LookPath("helm")
	if err != nil {
		program, err = exec.LookPath("../../bin/helm")
	}
	if err != nil {
		t.Skip("helm is not installed; make helm-check builds it")
	}
	output, err := exec.CommandContext(gatewaytest.Deadline(t), program, args...).CombinedOutput()
	return string(output), err
}

// render returns what the chart makes of values.
func render(t *testing.T, args ...string) (string, error) {
	t.Helper()
	return helm(t, append([]string{"template", "test", chart, "--kube-version", "1.30.0"}, args...)...)
}

// set returns the arguments for values of the command line.
func set(values ...string) []string {
	var args []string
	for _, value := range values {
		args = append(args, "--set", value)
	}
	return args
}

func TestTheChartRenders(t *testing.T) {
	for _, args := range [][]string{{"lint", "--strict", chart}, {"template", "test", chart, "--kube-version", "1.30.0", "--values", everything}} {
		if output, err := helm(t, args...); err != nil {
			t.Errorf("helm %v: %v\n%s", args, err, output)
		}
	}
	output, err := render(t)
	made := regexp.MustCompile(`(?s)admin-token: "([^"]+)".*api-key: "([^"]+)".*ADMIN_TOKEN_SHA256: "(\w+)".*API_KEY_SHA256: "(\w+)"`).FindStringSubmatch(output)
	if err != nil || made == nil || gatewaytest.HashOf(made[1]) != made[3] || gatewaytest.HashOf(made[2]) != made[4] {
		t.Errorf("the chart makes no credentials: %v\n%s", err, output)
	}
}

// Values with which the gateways would not start, would not become ready, or would each
// do something else are refused before anything is installed.
func TestTheChartRefuses(t *testing.T) {
	const store = "config.store.config=postgres://u@db/x"
	for _, test := range []struct {
		values []string
		says   string
	}{
		{set("replicas=3"), "replicas"},
		{set("config.security.keys=null"), "config.security.keys has no key"},
		{set("config.security.enabled=false"), "would not start"},
		{set("config.services.chat.load-balancer=fastest"), "load-balancer"},
		{set("config.server.shutdown-grace=abc"), "shutdown-grace"},
		{set("config.services.chat.adapter=nonesuch"), "adapter"},
		{set("config.limits.max-attempts=many"), "max-attempts"},
		{set("config.limits.max-attempts=11"), "max-attempts"},
		{set("config.quota.enabled=perhaps"), "enabled"},
		{set("config.services.chat.instances=m"), "instances"},
		{set("config.limit.max-attempts=3"), "limit"},
		{set("config.limits.maxAttempts=3"), "maxAttempts"},
		{set("config.services.chatt.load-balancer=random"), "chatt"},
		{set("config.services.chat.instances[0].namme=m"), "namme"},
		{set("config.services.chat.instances[0].timeouts.conect=1s"), "conect"},
		{set("config.security.keys[0].limits.requests=1"), "requests"},
		{set("replicaCount=2"), "needs config.store.config"},
		{set("autoscaling.enabled=true"), "needs config.store.config"},
		{set("replicaCount=2", store, "persistence.enabled=true"), "only one gateway can use"},
		{set("autoscaling.enabled=true", store, "persistence.enabled=true"), "only one gateway can use"},
		{set("autoscaling.enabled=true", store, "autoscaling.minReplicas=20"), "greater than"},
		{set("config.server.management-listen=127.0.0.1:9090"), "do not reach"},
		{set("config.server.management-listen=unix:/tmp/socket"), "do not reach"},
		{set("config.server.management-listen=0.0.0.0:8080"), "choose another one"},
	} {
		if output, err := render(t, test.values...); err == nil || !strings.Contains(output, test.says) {
			t.Errorf("%v: %v\n%s", test.values, err, output)
		}
	}
	for _, values := range [][]string{
		set("config.security.keys=null", "allowNoKeys=true"), set("replicaCount=2", store), set("replicaCount=2", "allowSeparate=true"),
		set("persistence.enabled=true"), set("autoscaling.enabled=true", store), set("config.services.imgGen.load-balancer=random"),
		set("config.services.chat.load-balancer=leastTime", "config.services.chat.adapter=Open_AI"),
		set("config.services.chat.load-balancer=${BALANCER}", "config.limits.max-attempts=${TRIES:3}"),
		set("config.services.chat.instances[0].weight=0.5", "config.services.chat.instances[0].name=m"),
		set("config.server.shutdown-grace=1m30s", "config.quota.enabled=no", "config.log.level=null"),
		set("config.services.chat.aliases.small=large"), set("config.services.chat.instances[0].headers.X-Key=a", "config.services.chat.instances[0].name=m"),
	} {
		if output, err := render(t, values...); err != nil {
			t.Errorf("%v: %v\n%s", values, err, output)
		}
	}
}

// manifest is what the tests look at in what is rendered.
type manifest struct {
	Kind string
	Spec struct {
		Strategy struct {
			Type          string
			RollingUpdate map[string]any `yaml:"rollingUpdate"`
		}
		Template struct {
			Spec struct {
				TerminationGracePeriodSeconds int `yaml:"terminationGracePeriodSeconds"`
				Containers                    []struct {
					Image                                       string
					ImagePullPolicy                             *string `yaml:"imagePullPolicy"`
					Env                                         []map[string]any
					EnvFrom                                     []map[string]any `yaml:"envFrom"`
					Ports                                       []map[string]any
					StartupProbe, LivenessProbe, ReadinessProbe map[string]any
					VolumeMounts                                []map[string]any `yaml:"volumeMounts"`
				}
				Volumes []map[string]any
			}
		}
		Ports     []map[string]any
		Endpoints []map[string]any
		Ingress   []struct{ Ports, From []map[string]any }
	}
	Data map[string]string
}

// manifests returns what is rendered, by kind.
func manifests(t *testing.T, args ...string) map[string]manifest {
	t.Helper()
	output, err := render(t, args...)
	if err != nil {
		t.Fatalf("%v\n%s", err, output)
	}
	// The keys of probes are written as they are in Kubernetes.
	output = regexp.MustCompile(`(startup|liveness|readiness)Probe:`).ReplaceAllString(output, "${1}probe:")
	found := map[string]manifest{}
	for document := range strings.SplitSeq(output, "\n---\n") {
		var m manifest
		if err := yaml.Unmarshal([]byte(document), &m); err != nil {
			t.Fatalf("%v\n%s", err, document)
		}
		found[m.Kind] = m
	}
	return found
}

// Probes, scrapes and the service follow management to its own port, and to TLS.
func TestTheChartAsksWhereTheGatewayAnswers(t *testing.T) {
	for _, test := range []struct {
		name         string
		values       []string
		port, scheme string
		ports        int
	}{
		{"one port", nil, "http", "HTTP", 1},
		{"management", set("config.server.management-listen=0.0.0.0:9090"), "management", "HTTP", 2},
		{"management in a list", set("config.server.management-listen[0]=:9090"), "management", "HTTP", 2},
		{"TLS", set("config.server.tls.certificate=/tls/tls.crt", "config.server.tls.key=/tls/tls.key"), "http", "HTTPS", 1},
		{"certificates of clients", set("config.server.tls.certificate=/tls/tls.crt", "config.server.tls.key=/tls/tls.key", "config.server.tls.client-ca=/tls/ca.crt"), "http", "", 1},
	} {
		t.Run(test.name, func(t *testing.T) {
			found := manifests(t, append(test.values, set("serviceMonitor.enabled=true", "networkPolicy.enabled=true")...)...)
			container := found["Deployment"].Spec.Template.Spec.Containers[0]
			for state, probe := range map[string]map[string]any{"startup": container.StartupProbe, "liveness": container.LivenessProbe, "readiness": container.ReadinessProbe} {
				var port, scheme any
				if get, is := probe["httpGet"].(map[string]any); is {
					port, scheme = get["port"], get["scheme"]
				} else if socket, is := probe["tcpSocket"].(map[string]any); is {
					port, scheme = socket["port"], ""
				}
				if port != test.port || scheme != test.scheme {
					t.Errorf("%s: %v", state, probe)
				}
			}
			if got := found["ServiceMonitor"].Spec.Endpoints[0]["port"]; got != test.port {
				t.Errorf("scrapes ask %v", got)
			}
			if len(container.Ports) != test.ports || len(found["Service"].Spec.Ports) != test.ports || len(found["NetworkPolicy"].Spec.Ingress) != test.ports {
				t.Errorf("ports: %v, of the service %v", container.Ports, found["Service"].Spec.Ports)
			}
			if test.ports == 2 && (container.Ports[1]["containerPort"] != 9090 || found["Service"].Spec.Ports[1]["port"] != 9090) {
				t.Errorf("ports: %v, of the service %v", container.Ports, found["Service"].Spec.Ports)
			}
		})
	}
}

// Who may reach the unified API need not reach the management API.
func TestTheChartSeparatesPeersOfManagement(t *testing.T) {
	listen := set("networkPolicy.enabled=true", "config.server.management-listen=0.0.0.0:9090")
	for name, test := range map[string]struct {
		values           []string
		from, management string
	}{
		"nothing given": {nil, "map[namespaceSelector:map[]]", "map[podSelector:map[]]"},
		"both given": {
			set("networkPolicy.from[0].podSelector.matchLabels.app=web", "networkPolicy.managementFrom[0].podSelector.matchLabels.app=ops"),
			"map[podSelector:map[matchLabels:map[app:web]]]", "map[podSelector:map[matchLabels:map[app:ops]]]",
		},
		"only the peers of the API": {
			set("networkPolicy.from[0].podSelector.matchLabels.app=web"),
			"map[podSelector:map[matchLabels:map[app:web]]]", "map[podSelector:map[]]",
		},
	} {
		t.Run(name, func(t *testing.T) {
			rules := manifests(t, append(test.values, listen...)...)["NetworkPolicy"].Spec.Ingress
			if len(rules) != 2 {
				t.Fatalf("got %d rules, want 2", len(rules))
			}
			for n, want := range []string{test.from, test.management} {
				if got := fmt.Sprint(rules[n].From[0]); len(rules[n].From) != 1 || got != want {
					t.Errorf("rule %d: got peers %v, want %s", n, rules[n].From, want)
				}
				if got, want := rules[n].Ports[0]["port"], []string{"http", "management"}[n]; got != want {
					t.Errorf("rule %d: got port %v, want %s", n, got, want)
				}
			}
		})
	}
}

// A pod that is told to stop serves until nobody sends requests to it any more, and is
// given the time for that.
func TestTheChartLetsEndpointsGoFirst(t *testing.T) {
	found := manifests(t)
	path := filepath.Join(t.TempDir(), "patchbay.yaml")
	gatewaytest.WriteFile(t, path, found["ConfigMap"].Data["patchbay.yaml"])
	loaded, err := config.Load(config.Source{File: path, Content: gatewaytest.ReadFile(t, path), Env: placeholders(found["ConfigMap"].Data["patchbay.yaml"])})
	if err != nil {
		t.Fatal(err)
	}
	server := loaded.Document.Server
	if server.ShutdownDelay <= 0 {
		t.Error("the gateway refuses connections as soon as it is told to stop")
	}
	if given, needed := found["Deployment"].Spec.Template.Spec.TerminationGracePeriodSeconds, (server.ShutdownDelay.Std() + server.ShutdownGrace.Std()).Seconds(); float64(given) <= needed {
		t.Errorf("%d s are given, %v are needed", given, needed)
	}
}

func TestTheChartTakesMoreVolumesAndVariables(t *testing.T) {
	pod := manifests(t, "--values", everything)["Deployment"].Spec.Template.Spec
	container := pod.Containers[0]
	for name, list := range map[string][]map[string]any{"HTTPS_PROXY": container.Env, "authorities": pod.Volumes} {
		if !slices.ContainsFunc(list, func(entry map[string]any) bool { return entry["name"] == name }) {
			t.Errorf("%s is not in %v", name, list)
		}
	}
	if !slices.ContainsFunc(container.VolumeMounts, func(mount map[string]any) bool { return mount["mountPath"] == "/authorities" }) {
		t.Errorf("mounts: %v", container.VolumeMounts)
	}
	if len(container.EnvFrom) != 2 || container.EnvFrom[1]["configMapRef"] == nil {
		t.Errorf("variables from: %v", container.EnvFrom)
	}
}

// The chart of a clone runs the newest release, which is looked for anew; a chart that was
// packaged runs what it was packaged with (TestTheChartHasTheVersionOfTheRelease).
func TestTheChartRunsAnImageThatExists(t *testing.T) {
	container := manifests(t)["Deployment"].Spec.Template.Spec.Containers[0]
	if container.Image != imageName+":latest" || container.ImagePullPolicy != nil {
		t.Errorf("image %s, policy %v", container.Image, container.ImagePullPolicy)
	}
}

// The schema of the chart has every setting of the gateway, so that helm refuses one that
// the gateway would not know.
func TestTheChartKnowsEverySetting(t *testing.T) {
	t.Parallel()
	path := filepath.Join(chart, "values.schema.json")
	content := string(gatewaytest.ReadFile(t, path))
	settings, err := json.Marshal(chartSchema(config.JSONSchema(func(string, string) string { return "" })), json.Deterministic(true), jsontext.WithIndentPrefix("  "), jsontext.WithIndent("  "))
	if err != nil {
		t.Fatal(err)
	}
	definitions := regexp.MustCompile(`(?s)  "definitions": \{.*\n  \}`)
	if !definitions.MatchString(content) {
		t.Fatal("the schema has no definitions")
	}
	want := definitions.ReplaceAllLiteralString(content, `  "definitions": `+string(settings))
	if os.Getenv("UPDATE") != "" {
		gatewaytest.WriteFile(t, path, want)
		return
	}
	if content != want {
		t.Errorf("%s does not have the settings of the gateway; UPDATE=1 go test ./cmd/patchbay -run TestTheChartKnowsEverySetting writes them", path)
	}
}

// chartSchema returns the definitions of a schema of settings for a chart: as they are for the
// file, each name in the one spelling that the templates read.
func chartSchema(settings map[string]any) map[string]any {
	definitions := settings["$defs"].(map[string]any)
	delete(settings["properties"].(map[string]any), "patchbay")
	definitions["config"] = map[string]any{"type": settings["type"], "properties": settings["properties"], "additionalProperties": false}
	for name, definition := range definitions {
		definitions[name] = inChart(definition)
	}
	return definitions
}

// inChart returns a schema in the form that a chart has it.
func inChart(schema any) any {
	switch s := schema.(type) {
	case []any:
		for i := range s {
			s[i] = inChart(s[i])
		}
	case map[string]any:
		if ref, has := s["$ref"].(string); has {
			return map[string]any{"$ref": strings.Replace(ref, "#/$defs/", "#/definitions/", 1)}
		}
		made := map[string]any{}
		for name, member := range s {
			made[name] = inChart(member)
		}
		delete(made, "patternProperties")
		if generation, isServices := made["img-gen"]; isServices { // which the API calls imgGen
			made["imgGen"], made["imgEdit"] = generation, made["img-edit"]
		}
		return made
	}
	return schema
}
