package main

import (
	"bytes"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/patchbay-ai/patchbay/internal/gateway/gatewaytest"
)

// workflow is what the tests look at in a workflow of GitHub.
type workflow struct {
	On          map[string]any    `yaml:"on"`
	Permissions map[string]string `yaml:"permissions"`
	Jobs        map[string]workflowJob
}

type workflowJob struct {
	Uses        string
	Permissions map[string]string
	Steps       []workflowStep
}

type workflowStep struct {
	Name, Uses, Run string
	With            map[string]any
}

// canWrite tells whether the job has a right that changes something.
func (j workflowJob) canWrite() bool {
	return slices.Contains(slices.Collect(maps.Values(j.Permissions)), "write")
}

func readWorkflow(t *testing.T, name string) (workflow, string) {
	t.Helper()
	content := gatewaytest.ReadFile(t, filepath.Join(repository, ".github/workflows", name))
	var w workflow
	if err := yaml.Unmarshal(content, &w); err != nil {
		t.Fatal(err)
	}
	return w, string(content)
}

// Workflows run actions that cannot change under them, with the least rights: what has
// one to write does not even have the sources, and so runs nothing of them.
func TestWorkflowsHaveTheLeastRights(t *testing.T) {
	t.Parallel()
	names, err := filepath.Glob(filepath.Join(repository, ".github/workflows/*.yml"))
	if err != nil || len(names) < 2 {
		t.Fatalf("%q, %v", names, err)
	}
	for _, name := range names {
		w, text := readWorkflow(t, filepath.Base(name))
		if w.Permissions == nil || len(w.Permissions) > 0 {
			t.Errorf("%s: the rights of all jobs are %v, want none", name, w.Permissions)
		}
		for _, line := range regexp.MustCompile(`(?m)^ *(?:- )?uses: *(.*)$`).FindAllStringSubmatch(text, -1) {
			if !regexp.MustCompile(`^(\./\.github/workflows/\S+|\S+@[0-9a-f]{40} # v\d+\.\d+\.\d+)$`).MatchString(line[1]) {
				t.Errorf("%s: %s is not named by its hash and its version", name, line[1])
			}
		}
		for id, job := range w.Jobs {
			if job.Permissions == nil {
				t.Errorf("%s: the job %s names no rights", name, id)
			}
			for _, step := range job.Steps {
				isCheckout := strings.HasPrefix(step.Uses, "actions/checkout@")
				if isCheckout && step.With["persist-credentials"] != false {
					t.Errorf("%s: the job %s leaves its token in the checkout", name, id)
				}
				if isCheckout && job.canWrite() {
					t.Errorf("%s: the job %s can write and has the sources", name, id)
				}
				if strings.Contains(step.Run, "${{") {
					t.Errorf("%s: the job %s writes an expression into a script", name, id)
				}
			}
		}
	}
}

// What is released is compiled by one version of Go, the newest patch, and not by the oldest that go.mod allows.
func TestReleasesAreBuiltWithOneVersionOfGo(t *testing.T) {
	t.Parallel()
	makefile := string(gatewaytest.ReadFile(t, filepath.Join(repository, "Makefile")))
	pinned := regexp.MustCompile(`(?m)^dist dist-check image: export GOTOOLCHAIN := go(1\.\d+\.\d+)$`).FindStringSubmatch(makefile)
	if pinned == nil {
		t.Fatal("the Makefile pins no version of Go for what is released")
	}
	for _, name := range []string{"check.yml", "release.yml"} {
		w, _ := readWorkflow(t, name)
		for id, job := range w.Jobs {
			for _, step := range job.Steps {
				if strings.HasPrefix(step.Uses, "actions/setup-go@") && step.With["go-version"] != pinned[1] {
					t.Errorf("%s: the job %s uses Go %v, want %s", name, id, step.With["go-version"], pinned[1])
				}
			}
		}
	}
}

// A change is checked before it is merged, by jobs that can change nothing.
func TestPullRequestsAreChecked(t *testing.T) {
	t.Parallel()
	w, text := readWorkflow(t, "check.yml")
	if _, isChecked := w.On["pull_request"]; !isChecked {
		t.Errorf("it runs on %v", w.On)
	}
	for id, job := range w.Jobs {
		if job.canWrite() {
			t.Errorf("the job %s can write", id)
		}
	}
	for _, part := range []string{".ci/run", "govulncheck", "make dist", "make helm-check", "docker compose"} {
		if !strings.Contains(text, part) {
			t.Errorf("%s is not run", part)
		}
	}
	release, _ := readWorkflow(t, "release.yml")
	if release.Jobs["check"].Uses != "./.github/workflows/check.yml" {
		t.Error("a release is not checked as a change is")
	}
}

// runStep runs a script of the release, with programs that only note how they were called.
func runStep(t *testing.T, job, step, tag string, programs map[string]string) (calls string) {
	t.Helper()
	bash, err := exec.LookPath("bash")
	if err != nil {
		t.Skip("bash is not installed")
	}
	w, _ := readWorkflow(t, "release.yml")
	at := slices.IndexFunc(w.Jobs[job].Steps, func(s workflowStep) bool { return s.Name == step })
	if at < 0 {
		t.Fatalf("the job %s has no step %q", job, step)
	}
	dir := t.TempDir()
	bin := filepath.Join(dir, "bin")
	for name, does := range programs {
		if err := os.MkdirAll(bin, 0o700); err != nil {
			t.Fatal(err)
		}
		gatewaytest.WriteFile(t, filepath.Join(bin, name), "#!/bin/sh\necho "+name+" \"$@\" >>'"+dir+"/calls'\n"+does+"\n")
		if err := os.Chmod(filepath.Join(bin, name), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.MkdirAll(filepath.Join(dir, "image"), 0o700); err != nil {
		t.Fatal(err)
	}
	gatewaytest.WriteFile(t, filepath.Join(dir, "image/index.json"), `{"manifests":[{"digest":"sha256:abc","annotations":{"org.opencontainers.image.ref.name":"1.2.3"}},{"digest":"sha256:abc","annotations":{"org.opencontainers.image.ref.name":"latest"}}]}`)
	var out bytes.Buffer
	c := exec.CommandContext(gatewaytest.Deadline(t), bash, "-e", "-o", "pipefail", "-c", w.Jobs[job].Steps[at].Run)
	c.Dir, c.Stdout, c.Stderr = dir, &out, &out
	c.Env = []string{"PATH=" + bin + ":" + os.Getenv("PATH"), "HOME=" + dir, "GITHUB_REF_NAME=" + tag, "GITHUB_REPOSITORY=Patchbay-AI/patchbay", "GITHUB_ACTOR=somebody", "TOKEN=t", "GITHUB_OUTPUT=" + filepath.Join(dir, "output")}
	if err := c.Run(); err != nil {
		t.Fatalf("%v: %s", err, out.String())
	}
	if content, err := os.ReadFile(filepath.Join(dir, "calls")); err == nil {
		calls = string(content)
	}
	if content, err := os.ReadFile(filepath.Join(dir, "output")); err == nil {
		calls += string(content)
	}
	return calls
}

// A version that comes before a release is none, and is not what people get who ask for
// the latest.
func TestOnlyAReleaseIsTheLatest(t *testing.T) {
	t.Parallel()
	for tag, want := range map[string]string{"v1.2.3": " --latest ", "v1.2.3-rc.1": " --prerelease --latest=false "} {
		if calls := runStep(t, "release", "Release", tag, map[string]string{"gh": ""}); !strings.Contains(calls, "gh release create "+tag+" ") || !strings.Contains(calls, want) {
			t.Errorf("%s: %s", tag, calls)
		}
	}
}

// The image is pushed as it was built, under the tags that it was built with, and what is
// attested is the digest of what was pushed.
func TestTheImageIsPushedAndAttested(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("jq"); err != nil {
		t.Skip("jq is not installed")
	}
	calls := runStep(t, "image", "Push it under its tags", "v1.2.3", map[string]string{"docker": "cat >/dev/null", "skopeo": "printf sha256:abc >digest"})
	for _, want := range []string{
		"oci:image:1.2.3 docker://ghcr.io/patchbay-ai/patchbay:1.2.3\n", "oci:image:latest docker://ghcr.io/patchbay-ai/patchbay:latest\n", "--preserve-digests",
		"image=ghcr.io/patchbay-ai/patchbay\n", "digest=sha256:abc\n",
	} {
		if !strings.Contains(calls, want) {
			t.Errorf("%q is not in\n%s", want, calls)
		}
	}
	w, _ := readWorkflow(t, "release.yml")
	for _, job := range []string{"image", "release"} {
		if !slices.ContainsFunc(w.Jobs[job].Steps, func(s workflowStep) bool { return strings.HasPrefix(s.Uses, "actions/attest-build-provenance@") }) {
			t.Errorf("what the job %s publishes is not attested", job)
		}
	}
}
