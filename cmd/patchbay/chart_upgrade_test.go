package main

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
	"go.yaml.in/yaml/v3"

	"github.com/patchbay-ai/patchbay/internal/gateway/gatewaytest"
)

// object is what Kubernetes does not let an upgrade change, of what is rendered.
type object struct {
	APIVersion string `yaml:"apiVersion"`
	Kind       string
	Metadata   struct{ Name string }
	Type       string
	Spec       struct {
		Selector         any
		AccessModes      any    `yaml:"accessModes"`
		StorageClassName string `yaml:"storageClassName"`
		ClusterIP        string `yaml:"clusterIP"`
	}
}

// objects returns what is rendered by its names, and its fixed parts as JSON.
func objects(t *testing.T, args ...string) map[string]string {
	t.Helper()
	output, err := render(t, args...)
	if err != nil {
		t.Fatalf("%v\n%s", err, output)
	}
	found := map[string]string{}
	for document := range strings.SplitSeq(output, "\n---\n") {
		var o object
		if err := yaml.Unmarshal([]byte(document), &o); err != nil {
			t.Fatalf("%v\n%s", err, document)
		}
		fixed, err := json.Marshal([]any{o.Type, o.Spec.Selector, o.Spec.AccessModes, o.Spec.StorageClassName, o.Spec.ClusterIP}, json.Deterministic(true))
		if err != nil {
			t.Fatal(err)
		}
		found[o.APIVersion+" "+o.Kind+" "+o.Metadata.Name] = string(fixed)
	}
	return found
}

// TestAnUpgradeOfTheChartIsNotRefused renders the values of releases that the chart of a8ab1908
// installed. An object that is gone would be deleted with its data, and a fixed part that changes
// makes Kubernetes refuse the upgrade.
func TestAnUpgradeOfTheChartIsNotRefused(t *testing.T) {
	const (
		labels  = `{"app.kubernetes.io/instance":"test","app.kubernetes.io/name":"patchbay"}`
		opaque  = `["Opaque",null,null,"",""]`
		nothing = `["",null,null,"",""]`
		matched = `["",{"matchLabels":` + labels + `},null,"",""]`
	)
	always := map[string]string{
		"apps/v1 Deployment test-patchbay":            matched,
		"policy/v1 PodDisruptionBudget test-patchbay": matched,
		"v1 Service test-patchbay":                    `["",` + labels + `,null,"",""]`,
		"v1 ServiceAccount test-patchbay":             nothing,
		"v1 ConfigMap test-patchbay":                  nothing,
	}
	const credentials = "v1 Secret test-patchbay-credentials"
	for _, test := range []struct {
		name   string
		values []string
		more   map[string]string
	}{
		{"defaults", nil, map[string]string{credentials: opaque}},
		{"a copy of values.yaml", []string{"--values", "testdata/chart/values.yaml"}, map[string]string{credentials: opaque}},
		{"a volume", set("persistence.enabled=true", "persistence.storageClass=fast"), map[string]string{
			credentials: opaque, "v1 PersistentVolumeClaim test-patchbay": `["",null,["ReadWriteOnce"],"fast",""]`,
		}},
		{"several", []string{"--values", everything}, map[string]string{
			"v1 Secret test-patchbay":                               opaque,
			"autoscaling/v2 HorizontalPodAutoscaler test-patchbay":  nothing,
			"networking.k8s.io/v1 Ingress test-patchbay":            nothing,
			"networking.k8s.io/v1 NetworkPolicy test-patchbay":      nothing,
			"monitoring.coreos.com/v1 ServiceMonitor test-patchbay": matched,
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			before := maps.Clone(always)
			maps.Copy(before, test.more)
			now := objects(t, test.values...)
			for _, name := range slices.Sorted(maps.Keys(before)) {
				if now[name] != before[name] {
					t.Errorf("%s was %s and is %q", name, before[name], now[name])
				}
			}
		})
	}
}

// TestTheChartKeepsDataOrServesOn has one gateway with a volume, which two pods cannot have at a
// time, or several that are replaced one by one.
func TestTheChartKeepsDataOrServesOn(t *testing.T) {
	const store = "config.store.config=postgres://u@db/x"
	for _, test := range []struct {
		name            string
		values          []string
		claim, strategy string
		notes           string
	}{
		{"one", nil, "test-patchbay", "Recreate", "for a few seconds nobody answers"},
		{"one with its own claim", set("persistence.existingClaim=mine"), "mine", "Recreate", "on the volume claim mine"},
		{"one without a volume", set("persistence.enabled=false"), "", "RollingUpdate", "are lost with the pod"},
		{"one with PostgreSQL", set(store), "", "RollingUpdate", ""},
		{"one with both", set(store, "persistence.enabled=true"), "test-patchbay", "Recreate", "nobody answers"},
		{"several", set("replicaCount=2", store), "", "RollingUpdate", "one by one, without a gap"},
		{"several that stop at once", set("replicaCount=2", store, "config.server.shutdown-delay=0s"), "", "RollingUpdate", "set config.server.shutdown-delay"},
		{"as many as needed", set("autoscaling.enabled=true", store), "", "RollingUpdate", "without a gap"},
		{"separate ones", set("replicaCount=2", "allowSeparate=true"), "", "RollingUpdate", "each of them has versions"},
	} {
		t.Run(test.name, func(t *testing.T) {
			found := manifests(t, test.values...)
			deployment := found["Deployment"].Spec
			if deployment.Strategy.Type != test.strategy {
				t.Errorf("strategy %+v", deployment.Strategy)
			}
			if roll := deployment.Strategy.RollingUpdate; test.strategy == "RollingUpdate" && (roll["maxUnavailable"] != 0 || roll["maxSurge"] != 1) {
				t.Errorf("rolls with %v", roll)
			}
			claim := ""
			for _, volume := range deployment.Template.Spec.Volumes {
				if of, is := volume["persistentVolumeClaim"].(map[string]any); is {
					claim, _ = of["claimName"].(string)
				}
			}
			_, isMade := found["PersistentVolumeClaim"]
			if claim != test.claim || isMade != (claim == "test-patchbay") {
				t.Errorf("the claim is %q, made: %t", claim, isMade)
			}
			if text := notes(t, test.values...); !strings.Contains(text, test.notes) {
				t.Errorf("the notes do not say %q:\n%s", test.notes, text)
			}
		})
	}
}

// notes returns what helm prints after an installation. Without a cluster helm renders only
// objects, so the notes become one.
func notes(t *testing.T, args ...string) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS(chart)); err != nil {
		t.Fatal(err)
	}
	text := string(gatewaytest.ReadFile(t, filepath.Join(dir, "templates/NOTES.txt")))
	gatewaytest.WriteFile(t, filepath.Join(dir, "templates/notes.yaml"), `{{- define "notes" -}}`+text+"{{- end -}}\nkind: Notes\ndata: { text: {{ include \"notes\" . | quote }} }\n")
	output, err := helm(t, append([]string{"template", "test", dir, "--kube-version", "1.30.0", "--show-only", "templates/notes.yaml"}, args...)...)
	var m manifest
	if err == nil {
		err = yaml.Unmarshal([]byte(output), &m)
	}
	if err != nil {
		t.Fatalf("%v\n%s", err, output)
	}
	return m.Data["text"]
}

// TestAPodOfTheChartHasTheTimeToStop sets how long the gateway takes.
func TestAPodOfTheChartHasTheTimeToStop(t *testing.T) {
	for _, test := range []struct {
		values []string
		want   int
	}{
		{nil, 45},
		{set("terminationGracePeriodSeconds=300"), 300},
		{set("config.server.shutdown-grace=2m"), 135},
		{set("config.server.shutdown-grace=1h1m1s", "config.server.shutdown-delay=500ms"), 3671},
		{set("config.server.shutdown-grace=1m30s", "config.server.shutdown-delay=1.5s"), 102},
	} {
		if got := manifests(t, test.values...)["Deployment"].Spec.Template.Spec.TerminationGracePeriodSeconds; got != test.want {
			t.Errorf("%v: %d s, want %d", test.values, got, test.want)
		}
	}
}
