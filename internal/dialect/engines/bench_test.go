package engines

import (
	"strings"
	"testing"
)

// BenchmarkMetrics reads the metrics of an engine, which happens every two seconds for each
// that is in use.
func BenchmarkMetrics(b *testing.B) {
	text := transcript(b, "vllm-metrics.txt")
	b.SetBytes(int64(len(text)))
	b.ReportAllocs()
	for b.Loop() {
		report := NewReport()
		if !readMetrics(&Answer{Body: strings.NewReader(text), Models: []string{"qwen-sim"}}, &report) {
			b.Fatal("nothing was told")
		}
	}
}
