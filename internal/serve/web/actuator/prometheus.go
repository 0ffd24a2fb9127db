package actuator

import (
	"bufio"
	"compress/gzip"
	"io"
	"net/http"
	"strconv"
	"strings"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
)

const (
	textType        = "text/plain; version=0.0.4; charset=utf-8"
	openMetricsType = "application/openmetrics-text; version=1.0.0; charset=utf-8"
	// scrapeBuffer is the number of bytes of a scrape that are written at a time.
	scrapeBuffer = 64 << 10
)

// scrapeQuery narrows a scrape.
type scrapeQuery struct {
	IncludedNames string `json:"includedNames" doc:"Names of families, separated by commas."`
}

// Prometheus answers GET /actuator/prometheus and GET /metrics.
func (a *API) Prometheus(w http.ResponseWriter, r *http.Request) {
	families, err := a.exposition.Scrape()
	if err != nil && len(families) == 0 {
		fail(w, r,
			refuse(http.StatusInternalServerError, "The metrics could not be gathered."))
		return
	}
	families = included(families, r.URL.Query()["includedNames"])
	header := w.Header()
	format, contentType := expfmt.NewFormat(expfmt.TypeTextPlain), textType
	if prefersOpenMetrics(r.Header.Get("Accept")) {
		format, contentType = expfmt.NewFormat(expfmt.TypeOpenMetrics), openMetricsType
	}
	header.Set("Content-Type", contentType)
	header.Set("Cache-Control", "no-store")
	header.Add("Vary", "Accept, Accept-Encoding")
	var out io.Writer = w
	if accepts(r.Header.Get("Accept-Encoding"), "gzip") {
		header.Set("Content-Encoding", "gzip")
		// Scrapes are frequent, so speed counts more than the last percent of size. The
		// only error is an invalid level.
		packed, _ := gzip.NewWriterLevel(w, gzip.BestSpeed)
		defer func() { _ = packed.Close() }() // a client that left does not need it
		out = packed
	}
	buffered := bufio.NewWriterSize(out, scrapeBuffer)
	encoder := expfmt.NewEncoder(buffered, format)
	for _, f := range families {
		if encoder.Encode(f) != nil {
			return // the client left
		}
	}
	if closer, ok := encoder.(expfmt.Closer); ok {
		_ = closer.Close() // writes "# EOF" where the format has it
	}
	_ = buffered.Flush() // a client that left does not need it
}

// included returns the families that were asked for by name, or all if none was.
func included(families []*dto.MetricFamily, names []string) []*dto.MetricFamily {
	if len(names) == 0 {
		return families
	}
	wanted := map[string]bool{}
	for _, list := range names {
		for name := range strings.SplitSeq(list, ",") {
			wanted[strings.TrimSpace(name)] = true
		}
	}
	var left []*dto.MetricFamily
	for _, f := range families {
		if wanted[f.GetName()] {
			left = append(left, f)
		}
	}
	return left
}

// prefersOpenMetrics reports whether Accept gives OpenMetrics at least the weight of plain
// text.
func prefersOpenMetrics(accept string) bool {
	return quality(accept, "application/openmetrics-text") > 0 &&
		quality(accept, "application/openmetrics-text") >= quality(accept, "text/plain")
}

func accepts(list, name string) bool { return quality(list, name) > 0 }

// quality returns the highest weight (q) that a name has in a header's list, 0 where it
// is not in the list.
func quality(list, name string) float64 {
	best := 0.0
	for item := range strings.SplitSeq(list, ",") {
		parts := strings.Split(item, ";")
		if !strings.EqualFold(strings.TrimSpace(parts[0]), name) {
			continue
		}
		weight := 1.0
		for _, parameter := range parts[1:] {
			if value, ok := strings.CutPrefix(strings.TrimSpace(parameter), "q="); ok {
				parsed, err := strconv.ParseFloat(value, 64)
				if err != nil {
					parsed = 0
				}
				weight = parsed
			}
		}
		best = max(best, weight)
	}
	return best
}
