package main

import (
	"bytes"
	"context"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/patchbay-ai/patchbay/internal/gateway/gatewaytest"
)

// binary is the program as users run it, for what only a process of its own
// can show: signals, exit codes, crashes. TestMain builds it.
var binary string

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "patchbay-e2e-")
	if err == nil {
		binary = filepath.Join(dir, "patchbay")
		err = build(binary)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		_ = os.RemoveAll(dir)
		os.Exit(code)
	}))
}

// shippingFlags are those of BUILD in the Makefile, so that what is tested is
// what ships.
var shippingFlags = []string{"-trimpath", "-buildvcs=false", "-tags", "grpcnotrace", "-ldflags", "-s -w"}

func TestBinaryIsBuiltAsItShips(t *testing.T) {
	want := strings.Join(shippingFlags[:5], " ") + ` "` + shippingFlags[5]
	for line := range strings.Lines(string(gatewaytest.ReadFile(t, "../../Makefile"))) {
		if strings.HasPrefix(line, "BUILD ") {
			if !strings.Contains(line, want) {
				t.Errorf("the Makefile builds with other flags than %s: %s", want, line)
			}
			return
		}
	}
	t.Error("the Makefile has no BUILD")
}

// One use of the templates of the standard library keeps every exported method of every type in the binary,
// because a template may call any of them.
func TestBinaryHasNoTemplatesAndIsNotTooLarge(t *testing.T) {
	t.Parallel()
	const most = 44_000_000
	content := gatewaytest.ReadFile(t, binary)
	if len(content) > most {
		t.Errorf("the binary has %d bytes, want at most %d", len(content), most)
	}
	for _, name := range []string{"text/template.(*Template).Execute", "html/template.(*Template).Execute"} {
		if bytes.Contains(content, []byte(name)) {
			t.Errorf("%s is reachable; write the page or the text without a template", name)
		}
	}
}

// The figures may be a tenth away, so that a small change does not touch four documents.
func TestDocumentsNameTheSizeOfTheBinary(t *testing.T) {
	t.Parallel()
	size := float64(len(gatewaytest.ReadFile(t, binary)))
	for _, figure := range []struct {
		document, text string
		unit           float64
	}{
		{"docs/llama-swap.md", `(\d+) MiB, with the console`, 1 << 20},
		{"docs/images/binary.svg", `>(\d+)M patchbay`, 1 << 20},
		{"docs/install.md", `and (\d+) MB unpacked`, 1e6},
		{"docs/zh/install.md", `解压后 (\d+) MB`, 1e6},
	} {
		found := regexp.MustCompile(figure.text).FindSubmatch(gatewaytest.ReadFile(t, "../../"+figure.document))
		if found == nil {
			t.Errorf("%s does not match %q", figure.document, figure.text)
			continue
		}
		named, _ := strconv.ParseFloat(string(found[1]), 64)
		if away := named*figure.unit/size - 1; math.Abs(away) > 0.1 {
			t.Errorf("%s names %s, the binary has %.1f", figure.document, found[0], size/figure.unit)
		}
	}
}

// build builds the program with these flags and those of shipping.
func build(to string, more ...string) error {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	flags := slices.Concat([]string{"build"}, shippingFlags, more, []string{"-o", to, "."})
	command := exec.CommandContext(ctx, "go", flags...)
	command.Env = append(os.Environ(), "CGO_ENABLED=0")
	if output, err := command.CombinedOutput(); err != nil {
		return fmt.Errorf("building patchbay: %w\n%s", err, output)
	}
	return nil
}

// replaceFile puts a file in the place of another in one step, as deployments do.
func replaceFile(t *testing.T, path, content string) {
	t.Helper()
	gatewaytest.WriteFile(t, path+".next", content)
	if err := os.Rename(path+".next", path); err != nil {
		t.Fatal(err)
	}
}

// runFor runs the program in this process beside other tests: its flags must name all
// that it reads.
func runFor(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	code = run(args, nil, &out, &errs)
	return code, out.String(), errs.String()
}
