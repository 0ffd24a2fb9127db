package calls

import (
	"encoding/binary"
	"encoding/hex"
	"math"
	"math/rand/v2"
	"strings"
)

// TraceNew sets which part of the calls that belong to no trace begins one, from 0
// to 1. Calls that belong to a trace follow the decision of its first span. Nothing
// is traced before TraceNew is called.
func (r *Recorder) TraceNew(part float64) {
	r.traceNew.Store(uint64(part * (1 << 32)))
	r.tracing.Store(true)
}

// Tracing tells whether calls may be traced.
func (r *Recorder) Tracing() bool { return r != nil && r.tracing.Load() && r.counts.On() }

// StartTrace decides whether a call is traced, and returns its place in the
// trace: a zero one if not.
func (r *Recorder) StartTrace(traceparent string) Trace {
	trace, sampled, given := ParseTraceparent(traceparent)
	if given {
		if !sampled {
			return Trace{}
		}
		trace.Span = NewSpanID()
		return trace
	}
	if chance := r.traceNew.Load(); chance <= math.MaxUint32 && uint64(rand.Uint32()) >= chance { //nolint:gosec // nobody gains by guessing it
		return Trace{}
	}
	binary.LittleEndian.PutUint64(trace.ID[:8], rand.Uint64())   //nolint:gosec // unique is enough
	binary.LittleEndian.PutUint64(trace.ID[8:], rand.Uint64()|1) //nolint:gosec // unique is enough
	trace.Span = NewSpanID()
	return trace
}

// NewSpanID returns a random identifier.
func NewSpanID() (id SpanID) {
	binary.LittleEndian.PutUint64(id[:], rand.Uint64()|1) //nolint:gosec // unique is enough
	return id
}

// traceparentLength is that of "00-<32 digits>-<16 digits>-<2 digits>".
const traceparentLength = 2 + 1 + 32 + 1 + 16 + 1 + 2

// ParseTraceparent reads the header that tells the caller's place in a trace. It
// returns false where there is none or it is malformed.
func ParseTraceparent(s string) (trace Trace, sampled, ok bool) {
	if len(s) < traceparentLength || s[2] != '-' || s[35] != '-' || s[52] != '-' ||
		s[:2] == "ff" || s[:2] == "00" && len(s) != traceparentLength ||
		len(s) > traceparentLength && s[traceparentLength] != '-' || strings.ToLower(s[:traceparentLength]) != s[:traceparentLength] {
		return Trace{}, false, false
	}
	var version, flags [1]byte
	for _, part := range [...]struct {
		to   []byte
		from string
	}{{version[:], s[:2]}, {trace.ID[:], s[3:35]}, {trace.Parent[:], s[36:52]}, {flags[:], s[53:55]}} {
		if _, err := hex.Decode(part.to, []byte(part.from)); err != nil {
			return Trace{}, false, false
		}
	}
	if (trace.ID == TraceID{}) || (trace.Parent == SpanID{}) {
		return Trace{}, false, false
	}
	return trace, flags[0]&1 != 0, true
}

// Traceparent writes the header that tells a backend its place in a trace.
func Traceparent(id TraceID, span SpanID) string {
	b := make([]byte, 0, traceparentLength)
	b = append(b, "00-"...)
	b = hex.AppendEncode(b, id[:])
	b = append(b, '-')
	b = hex.AppendEncode(b, span[:])
	return string(append(b, "-01"...))
}
