package gatewaytest

import (
	"bytes"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

// Scrape returns the samples of a scrape by name and labels, as they are printed.
func (r *Gateway) Scrape() map[string]float64 {
	r.T.Helper()
	answer := r.Do(http.MethodGet, "/actuator/prometheus", "").Succeeds(r.T)
	parser := expfmt.NewTextParser(model.LegacyValidation)
	families, err := parser.TextToMetricFamilies(strings.NewReader(answer.Body))
	if err != nil {
		r.T.Fatalf("%v in\n%s", err, answer.Body)
	}
	if len(families) == 0 {
		r.T.Fatal("the scrape is empty")
	}
	samples := map[string]float64{}
	for line := range strings.Lines(answer.Body) {
		if name, value, ok := strings.Cut(strings.TrimSuffix(line, "\n"), " "); ok && !strings.HasPrefix(line, "#") {
			var n float64
			if _, err := fmt.Sscan(value, &n); err != nil {
				r.T.Fatalf("%q: %v", line, err)
			}
			samples[name] = n
		}
	}
	return samples
}

// Sum adds the samples of a family up that have all these labels.
func Sum(samples map[string]float64, family string, labels ...string) float64 {
	total := 0.0
	for name, value := range samples {
		own, rest, _ := strings.Cut(name, "{")
		if own == family && !slices.ContainsFunc(labels,
			func(label string) bool { return !strings.Contains(rest, label) }) {
			total += value
		}
	}
	return total
}

// GetObject reads a JSON object.
func (r *Gateway) GetObject(path string, headers ...string) map[string]any {
	r.T.Helper()
	return DecodeObject(r.T, r.Do(http.MethodGet, path, "", headers...).Succeeds(r.T).Body)
}

// CountLines returns how many lines of a log have all these parts.
func CountLines(log string, parts ...string) int {
	count := 0
next:
	for line := range strings.Lines(log) {
		for _, part := range parts {
			if !strings.Contains(line, part) {
				continue next
			}
		}
		count++
	}
	return count
}

// Buffer collects a log.
type Buffer struct {
	Mu  sync.Mutex
	Buf bytes.Buffer
}

func (b *Buffer) Write(p []byte) (int, error) {
	b.Mu.Lock()
	defer b.Mu.Unlock()
	return b.Buf.Write(p)
}

func (b *Buffer) String() string {
	b.Mu.Lock()
	defer b.Mu.Unlock()
	return b.Buf.String()
}

// OpenUploads lists the temporary files that a process holds open.
func OpenUploads(t *testing.T, pid int) []string {
	t.Helper()
	dir := filepath.Join("/proc", strconv.Itoa(pid), "fd")
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil // no such thing on this system
	}
	var found []string
	for _, entry := range entries {
		if target, err := os.Readlink(filepath.Join(dir, entry.Name())); err == nil &&
			strings.Contains(target, "patchbay-upload-") {
			found = append(found, target)
		}
	}
	return found
}

// HasProc reports whether this system shows the open files of a process.
func HasProc() bool {
	_, err := os.Stat("/proc/self/fd")
	return err == nil
}
