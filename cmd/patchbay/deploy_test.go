package main

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/patchbay-ai/patchbay/internal/gateway/gatewaytest"
)

const deploy = "../../deploy"

// imageName is the image of the releases, without its tag.
const imageName = "ghcr.io/patchbay-ai/patchbay"

// placeholders returns a value for every variable that a text refers to.
func placeholders(text string) []string {
	var env []string
	for _, found := range regexp.MustCompile(`\$\{([A-Z0-9_]+)\}`).FindAllStringSubmatch(text, -1) {
		value := "value"
		if strings.HasSuffix(found[1], "_SHA256") {
			value = strings.Repeat("0", 64)
		}
		env = append(env, found[1]+"="+value)
	}
	return env
}

// The configurations that are shipped have no mistakes.
func TestShippedConfigurationsAreGood(t *testing.T) {
	for _, file := range []string{"systemd/patchbay.yaml", "compose/patchbay.yaml", "compose/cluster-patchbay.yaml"} {
		path := filepath.Join(deploy, file)
		var out, errs bytes.Buffer
		if code := run([]string{"check", path}, placeholders(string(gatewaytest.ReadFile(t, path))), &out, &errs); code != exitOK {
			t.Errorf("%s: %s", file, errs.String())
		}
	}
	var values struct {
		Config yaml.Node `yaml:"config"`
	}
	for _, file := range []string{"helm/patchbay/values.yaml", "helm/everything.yaml"} {
		if err := yaml.Unmarshal(gatewaytest.ReadFile(t, filepath.Join(deploy, file)), &values); err != nil {
			t.Fatal(err)
		}
		content, err := yaml.Marshal(&values.Config)
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(t.TempDir(), "patchbay.yaml")
		gatewaytest.WriteFile(t, path, string(content))
		var out, errs bytes.Buffer
		if code := run([]string{"check", path, "--listen", "0.0.0.0:8080"}, placeholders(string(content)), &out, &errs); code != exitOK {
			t.Errorf("%s: %s", file, errs.String())
		}
	}
}

// What the compose files mount from this tree is there, and their gateways cannot do
// more than they need.
func TestComposeFilesNameWhatIsThere(t *testing.T) {
	for _, file := range []string{"compose.yaml", "cluster.yaml", "monitoring.yaml"} {
		var compose struct {
			Services map[string]struct {
				Image       string
				Volumes     []string
				ReadOnly    bool `yaml:"read_only"`
				User        string
				CapDrop     []string `yaml:"cap_drop"`
				Healthcheck struct{ Test []string }
				Ports       []string
			}
		}
		if err := yaml.Unmarshal(gatewaytest.ReadFile(t, filepath.Join(deploy, "compose", file)), &compose); err != nil {
			t.Fatal(err)
		}
		for name, service := range compose.Services {
			for _, volume := range service.Volumes {
				source, _, _ := strings.Cut(volume, ":")
				if !strings.HasPrefix(source, ".") {
					continue
				}
				if _, err := os.Stat(filepath.Join(deploy, "compose", source)); err != nil {
					t.Errorf("%s, %s: %v", file, name, err)
				}
			}
			for _, port := range service.Ports {
				if !strings.HasPrefix(port, "127.0.0.1:") {
					t.Errorf("%s, %s: %s is open to other machines", file, name, port)
				}
			}
			if name == "patchbay" && service.Image != "${PATCHBAY_IMAGE:-"+imageName+":latest}" {
				t.Errorf("%s runs the image %s", file, service.Image)
			}
			if name == "patchbay" && (!service.ReadOnly || service.User != "65532:65532" || len(service.CapDrop) != 1 || strings.Join(service.Healthcheck.Test, " ") != "CMD /patchbay healthcheck") {
				t.Errorf("%s: %+v", file, service)
			}
		}
	}
}

// The image has one name, that of the project's home, wherever somebody is told to run it.
// What deploy/dist builds and release.yml pushes has the same (TestTheImageThatIsLoaded).
func TestTheImageHasOneName(t *testing.T) {
	t.Parallel()
	home := regexp.MustCompile(`(?m)^module github\.com/(\S+)$`).FindSubmatch(gatewaytest.ReadFile(t, filepath.Join(repository, "go.mod")))
	if len(home) != 2 || imageName != "ghcr.io/"+string(home[1]) {
		t.Errorf("the project is at home at %q", home)
	}
	var values struct{ Image struct{ Repository string } }
	if err := yaml.Unmarshal(gatewaytest.ReadFile(t, filepath.Join(deploy, "helm/patchbay/values.yaml")), &values); err != nil {
		t.Fatal(err)
	}
	if values.Image.Repository != imageName {
		t.Errorf("the chart runs %s", values.Image.Repository)
	}
	pages, err := filepath.Glob(filepath.Join(repository, "docs/*.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, page := range append(pages, filepath.Join(repository, "README.md"), filepath.Join(repository, "Makefile")) {
		text := string(gatewaytest.ReadFile(t, page))
		for _, found := range regexp.MustCompile(`docker run [^\n]*?(\S+) (?:demo|serve)\b|(\S*patchbay:(?:latest|VERSION)\b)`).FindAllStringSubmatch(text, -1) {
			if name := found[1] + found[2]; !strings.HasPrefix(strings.TrimPrefix(name, "`"), imageName+":") {
				t.Errorf("%s names the image %s", page, name)
			}
		}
	}
}

// The unit starts the program in a way that it understands.
func TestTheUnitStartsWhatThereIs(t *testing.T) {
	unit := string(gatewaytest.ReadFile(t, filepath.Join(deploy, "systemd/patchbay.service")))
	for _, part := range []string{"Type=notify", "WatchdogSec=", "DynamicUser=yes", "ProtectSystem=strict", "NoNewPrivileges=yes", "StateDirectory=patchbay"} {
		if !strings.Contains(unit, part+"") {
			t.Errorf("%s is missing", part)
		}
	}
	start := regexp.MustCompile(`(?m)^ExecStart=/usr/bin/patchbay (.*)$`).FindStringSubmatch(unit)
	if start == nil {
		t.Fatal("no ExecStart")
	}
	command, rest, err := newRoot(nil, os.Stdout, os.Stderr).Find(strings.Fields(start[1]))
	if err != nil || command.Name() != "serve" || command.ParseFlags(rest) != nil {
		t.Errorf("%q: %v", start[1], err)
	}
}
