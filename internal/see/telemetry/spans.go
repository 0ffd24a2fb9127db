package telemetry

import (
	"cmp"
	"iter"
	"net"
	"net/url"
	"strconv"
	"strings"
	"time"

	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	resourcepb "go.opentelemetry.io/proto/otlp/resource/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"github.com/patchbay-ai/patchbay/internal/request/schema"
	"github.com/patchbay-ai/patchbay/internal/see/calls"
)

const (
	// scope names the instrumentation scope of spans and metrics.
	scope = "github.com/patchbay-ai/patchbay"
	// schemaURL is the version of OpenTelemetry's semantic conventions that defines the
	// names of attributes and metrics.
	schemaURL = "https://opentelemetry.io/schemas/1.41.0"
)

// maxExport is how many bytes the spans of one export may have: collectors refuse more than
// 4 MiB unless they are configured otherwise.
const maxExport = 2 << 20

// portions passes on the spans of a batch, in portions that collectors take.
func (e *Exporter) portions(batch []calls.Record) iter.Seq[*tracepb.ResourceSpans] {
	return func(yield func(*tracepb.ResourceSpans) bool) {
		var spans []*tracepb.Span
		size := 0
		for i := range batch {
			of := e.callSpans(&batch[i])
			more := 0
			for _, span := range of {
				more += proto.Size(span)
			}
			if size+more > maxExport && len(spans) > 0 {
				if !yield(e.resource(spans)) {
					return
				}
				spans, size = nil, 0
			}
			spans, size = append(spans, of...), size+more
		}
		yield(e.resource(spans))
	}
}

func (e *Exporter) resource(spans []*tracepb.Span) *tracepb.ResourceSpans {
	return &tracepb.ResourceSpans{
		Resource: &resourcepb.Resource{Attributes: []*commonpb.KeyValue{
			text("service.name", e.settings.ServiceName), text("service.version", e.version),
		}},
		ScopeSpans: []*tracepb.ScopeSpans{{
			Scope: &commonpb.InstrumentationScope{Name: scope, Version: e.version},
			Spans: spans, SchemaUrl: schemaURL,
		}},
	}
}

// callSpans makes the spans of one call: the request, and in it every attempt. Prompts and
// answers are in the span of the attempt that answered, or of the request if no backend was
// called.
func (e *Exporter) callSpans(c *calls.Record) []*tracepb.Span {
	spans := []*tracepb.Span{serverSpan(c)}
	for n, try := range c.Described() {
		if (try.Span != calls.SpanID{}) {
			spans = append(spans, clientSpan(c, &try, n+1))
		}
	}
	if e.settings.Content {
		last := spans[len(spans)-1]
		last.Attributes = append(last.Attributes, contentOf(c, e.captured(c))...)
	}
	return spans
}

func serverSpan(c *calls.Record) *tracepb.Span {
	span := newSpan(c, c.Trace.Span, c.Trace.Parent, "POST "+c.Route, tracepb.Span_SPAN_KIND_SERVER, 0, c.Ended)
	span.Attributes = append([]*commonpb.KeyValue{
		text("http.request.method", "POST"), text("http.route", c.Route), text("patchbay.request.id", c.RequestID),
		text("gen_ai.operation.name", operationOf(c)), text("gen_ai.request.model", cmp.Or(c.Asked, c.Model)),
		text("gen_ai.provider.name", providerOf(c)),
		whole("patchbay.attempts", int64(c.Attempts)), flag("gen_ai.request.stream", c.Streamed),
	}, whose(c)...)
	if c.Attempts > 0 && c.Code == "" {
		span.Attributes = append(span.Attributes, text("gen_ai.response.model", c.Model))
	}
	if c.Resumed > 0 {
		span.Attributes = append(span.Attributes, whole("patchbay.resumed", int64(c.Resumed)))
	}
	if c.Status != 0 {
		span.Attributes = append(span.Attributes, whole("http.response.status_code", int64(c.Status)))
	}
	span.Attributes = append(span.Attributes, usage(c)...)
	if c.Queued > 0 {
		span.Attributes = append(span.Attributes, seconds("patchbay.queue.wait", c.Queued))
	}
	if c.Streamed && c.FirstToken > 0 {
		span.Events = firstToken(c)
		span.Attributes = append(span.Attributes,
			seconds("gen_ai.response.time_to_first_chunk", c.FirstToken),
			seconds("gen_ai.server.time_to_first_token", c.FirstToken))
	}
	if c.PerToken > 0 {
		span.Attributes = append(span.Attributes, seconds("gen_ai.server.time_per_output_token", c.PerToken))
	}
	// A fault of the client is no error of the server.
	if c.Code != "" {
		span.Attributes = append(span.Attributes, text("error.type", c.Code))
		if !c.Result.Rejected() && !c.Gone {
			span.Status = failed(c.Code)
		}
	}
	return span
}

func clientSpan(c *calls.Record, try *calls.Try, number int) *tracepb.Span {
	name := operationOf(c) + " " + c.Model
	span := newSpan(c, try.Span, c.Trace.Span, name, tracepb.Span_SPAN_KIND_CLIENT, try.Began, try.Ended)
	span.Attributes = []*commonpb.KeyValue{
		text("gen_ai.operation.name", operationOf(c)), text("gen_ai.request.model", c.Model),
		text("gen_ai.provider.name", try.Provider), flag("gen_ai.request.stream", c.Streamed),
		whole("patchbay.attempt", int64(number)),
		flag("patchbay.connection.reused", try.Reused),
	}
	if host, port := addressOf(try.Instance); host != "" {
		span.Attributes = append(span.Attributes, text("server.address", host), whole("server.port", port))
	}
	if number == len(c.Described()) {
		span.Attributes = append(span.Attributes, usage(c)...)
		if c.FirstToken > 0 {
			span.Events = firstToken(c)
		}
		if first := c.FirstTokenOf(try); first > 0 {
			span.Attributes = append(span.Attributes, seconds("gen_ai.response.time_to_first_chunk", first))
		}
	}
	if c.Conversation != "" {
		span.Attributes = append(span.Attributes, text("gen_ai.conversation.id", c.Conversation))
	}
	if try.Code != "" {
		span.Attributes = append(span.Attributes, text("error.type", try.Code))
		if try.Cause != "" {
			span.Attributes = append(span.Attributes, text("patchbay.cause", try.Cause))
		}
		span.Status = failed(try.Code)
	}
	return span
}

// firstToken returns the event of the first token of the answer.
func firstToken(c *calls.Record) []*tracepb.Span_Event {
	return []*tracepb.Span_Event{{Name: "gen_ai.first_token", TimeUnixNano: nanos(c, c.FirstToken)}}
}

func newSpan(c *calls.Record, id, parent calls.SpanID, name string, kind tracepb.Span_SpanKind, from,
	to time.Duration) *tracepb.Span {
	span := &tracepb.Span{
		TraceId: c.Trace.ID[:], SpanId: id[:], Name: name, Kind: kind,
		StartTimeUnixNano: nanos(c, from), EndTimeUnixNano: nanos(c, max(from, to)),
	}
	if (parent != calls.SpanID{}) {
		span.ParentSpanId = parent[:]
	}
	return span
}

func nanos(c *calls.Record, at time.Duration) uint64 { return uint64(c.Started.Add(at).UnixNano()) }

func failed(code string) *tracepb.Status {
	return &tracepb.Status{Code: tracepb.Status_STATUS_CODE_ERROR, Message: code}
}

func usage(c *calls.Record) []*commonpb.KeyValue {
	if !c.Usage.Known {
		return nil
	}
	used := []*commonpb.KeyValue{
		whole("gen_ai.usage.input_tokens", c.Usage.Prompt), whole("gen_ai.usage.output_tokens", c.Usage.Completion),
	}
	if c.Usage.IsCachedTold {
		used = append(used, whole("gen_ai.usage.cache_read.input_tokens", c.Usage.Cached))
	}
	return used
}

// whose returns who sent the request, as far as that is known.
func whose(c *calls.Record) (known []*commonpb.KeyValue) {
	for _, name := range [...]struct{ key, value string }{
		{"user.id", c.User}, {"session.id", c.Session}, {"gen_ai.conversation.id", c.Conversation},
	} {
		if name.value != "" {
			known = append(known, text(name.key, name.value))
		}
	}
	return known
}

// providerOf returns who answered: the backend that was called last, or the gateway itself.
func providerOf(c *calls.Record) string {
	if c.Attempts == 0 {
		return "patchbay"
	}
	return c.Try().Provider
}

// addressOf takes host and port out of an instance's identifier, which is a
// name, an @ and a URL; names may hold an @ too.
func addressOf(instance string) (host string, port int64) {
	for _, scheme := range [...]string{"@http://", "@https://"} {
		at := strings.LastIndex(instance, scheme)
		if at < 0 {
			continue
		}
		u, err := url.Parse(instance[at+1:])
		if err != nil {
			return "", 0
		}
		port = 80
		if u.Scheme == "https" {
			port = 443
		}
		if _, text, err := net.SplitHostPort(u.Host); err == nil {
			if n, err := strconv.ParseInt(text, 10, 32); err == nil {
				port = n
			}
		}
		return u.Hostname(), port
	}
	return "", 0
}

// operationOf returns the name that the semantic conventions have for the request's
// operation, or one in their manner.
func operationOf(c *calls.Record) string {
	if c.Door == schema.DoorCompletions {
		return "text_completion"
	}
	switch c.Service {
	case schema.Chat:
		return "chat"
	case schema.Embedding:
		return "embeddings"
	case schema.Rerank:
		return "rerank"
	case schema.TTS:
		return "text_to_speech"
	case schema.STT:
		return "speech_to_text"
	case schema.ImgGen, schema.ImgEdit:
		return "generate_content"
	}
	return c.Service.String()
}

func text(key, value string) *commonpb.KeyValue {
	value = strings.ToValidUTF8(value, "\uFFFD")
	held := &commonpb.AnyValue{Value: &commonpb.AnyValue_StringValue{StringValue: value}}
	return &commonpb.KeyValue{Key: key, Value: held}
}

func whole(key string, value int64) *commonpb.KeyValue {
	return &commonpb.KeyValue{Key: key, Value: &commonpb.AnyValue{Value: &commonpb.AnyValue_IntValue{IntValue: value}}}
}

func flag(key string, value bool) *commonpb.KeyValue {
	held := &commonpb.AnyValue{Value: &commonpb.AnyValue_BoolValue{BoolValue: value}}
	return &commonpb.KeyValue{Key: key, Value: held}
}

func seconds(key string, d time.Duration) *commonpb.KeyValue {
	held := &commonpb.AnyValue{Value: &commonpb.AnyValue_DoubleValue{DoubleValue: d.Seconds()}}
	return &commonpb.KeyValue{Key: key, Value: held}
}
