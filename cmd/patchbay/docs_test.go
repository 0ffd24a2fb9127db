package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/patchbay-ai/patchbay/internal/gateway/gatewaytest"
	"github.com/patchbay-ai/patchbay/internal/testing/storetest"
)

const repository = "../.."

// shellBlock matches a block of commands and what is written behind its language:
// "test" for those that run against the demo, "test=Name" for those that the test of
// that name runs. TestHouse holds every document to that.
var shellBlock = regexp.MustCompile("(?ms)^```sh ([^\n]*)\n(.*?)^```$")

// commandsOf returns the blocks of a document that have this mark.
func commandsOf(t *testing.T, document, mark string) []string {
	t.Helper()
	var commands []string
	for _, match := range shellBlock.FindAllStringSubmatch(string(gatewaytest.ReadFile(t, filepath.Join(repository, document))), -1) {
		if match[1] == mark {
			commands = append(commands, match[2])
		}
	}
	return commands
}

// shell runs commands of documents, in a directory of its own, where "patchbay" is the
// program.
type shell struct {
	t       *testing.T
	dir     string
	env     []string
	address *strings.Replacer
}

// newShell returns a shell that replaces addresses in the commands that it runs.
func newShell(t *testing.T, addresses ...string) *shell {
	t.Helper()
	for _, tool := range []string{"curl", "grep", "sed", "base64", "sh"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skip(tool + " is not installed")
		}
	}
	s := &shell{t: t, dir: t.TempDir(), address: strings.NewReplacer(addresses...)}
	bin := t.TempDir()
	if err := os.Symlink(binary, filepath.Join(bin, "patchbay")); err != nil {
		t.Fatal(err)
	}
	s.env = []string{"PATH=" + bin + ":" + os.Getenv("PATH"), "HOME=" + s.dir, "TMPDIR=" + t.TempDir()}
	return s
}

// run runs commands until the first that fails, and returns what they wrote.
func (s *shell) run(commands string) string {
	s.t.Helper()
	script := strings.ReplaceAll(s.address.Replace(commands), "curl ", "curl --silent --show-error --fail ")
	c := exec.CommandContext(gatewaytest.Deadline(s.t), "sh", "-e")
	c.Dir, c.Env, c.Stdin = s.dir, s.env, strings.NewReader(script)
	output, err := c.CombinedOutput()
	if err != nil {
		s.t.Fatalf("%v\n%s\n%s", err, script, output)
	}
	return string(output)
}

// The commands of the documents that use the demo work, page by page and in their order.
func TestCommandsOfTheDocumentsWork(t *testing.T) {
	t.Parallel()
	pages, err := filepath.Glob(filepath.Join(repository, "docs", "*.md"))
	if err != nil {
		t.Fatal(err)
	}
	demo := startChild(t, "demo", "--listen", "127.0.0.1:0", "--traffic=false")
	demo.waitFor("Ctrl-C stops")
	base := regexp.MustCompile(`API base +(\S+)/v1`).FindStringSubmatch(demo.stderr.String())
	if base == nil {
		t.Fatal(demo.stderr.String())
	}
	for _, page := range append([]string{"README.md", "README.zh-CN.md"}, pages...) {
		page = strings.TrimPrefix(page, repository+"/")
		commands := commandsOf(t, page, "test")
		if len(commands) == 0 {
			continue
		}
		t.Run(page, func(t *testing.T) {
			s := newShell(t, "http://127.0.0.1:8080", base[1])
			output := s.run(strings.Join(commands, "\n"))
			if strings.HasPrefix(page, "README") {
				if picture := gatewaytest.ReadFile(t, filepath.Join(s.dir, "picture.png")); !strings.HasPrefix(string(picture), "\x89PNG") {
					t.Error("picture.png is no picture")
				}
			}
			if page == "docs/start.md" && !strings.Contains(output, strings.Repeat("200 ", 6)) {
				t.Errorf("requests fail while one of two instances is broken:\n%s", output)
			}
		})
	}
}

// docs/first-backend.md works from an empty folder, with a model server where the page
// has an Ollama, and another one where it has a second backend.
func TestFirstBackend(t *testing.T) {
	t.Parallel()
	const mark = "test=TestFirstBackend"
	first, second := modelServer(t, "qwen2.5:7b"), modelServer(t, "qwen2.5:7b", "other")
	address := storetest.FreeAddress(t)
	s := newShell(t, "patchbay init --yes", "patchbay init --yes --ports 0 --listen "+address+" --backend "+first.URL(),
		"http://127.0.0.1:8000", second.URL(), "127.0.0.1:8080", address)
	steps := commandsOf(t, "docs/first-backend.md", mark)
	const before = 2 // init, and check with doctor: before the gateway runs
	if len(steps) <= before {
		t.Fatalf("the page has %d steps", len(steps))
	}
	for _, step := range append(steps[:before:before], commandsOf(t, "README.md", mark)...) {
		s.run(step)
	}
	c := startChild(t, "serve", filepath.Join(s.dir, "patchbay.yaml"), "--data-dir", filepath.Join(s.dir, "data"))
	c.waitFor(`"msg":"listening"`)
	output := ""
	for _, step := range steps[before:] {
		output += s.run(step)
	}
	for _, want := range []string{`"id":"qwen2.5:7b"`, `"object":"chat.completion"`, "added 2 instances", `"servedModel"`} {
		if !strings.Contains(output, want) {
			t.Errorf("the commands did not write %s:\n%s", want, output)
		}
	}
}
