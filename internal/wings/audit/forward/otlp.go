package forward

import (
	"context"
	"crypto/tls"
	"strings"
	"time"

	collectorpb "go.opentelemetry.io/proto/otlp/collector/logs/v1"
	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	logspb "go.opentelemetry.io/proto/otlp/logs/v1"
	resourcepb "go.opentelemetry.io/proto/otlp/resource/v1"
	"google.golang.org/protobuf/proto"

	"github.com/patchbay-ai/patchbay/internal/request/outgoing"
	"github.com/patchbay-ai/patchbay/internal/wings/audit"
)

// OTLP returns the target of a collector of logs, over HTTP.
func OTLP(endpoint string, headers map[string]string, trust *tls.Config) audit.Target {
	const path = "/v1/logs"
	to := strings.TrimSuffix(strings.TrimSuffix(endpoint, "/"), path) + path
	client := outgoing.New(outgoing.Options{Timeout: patience, TLS: trust, Idle: 1})
	send := func(ctx context.Context, messages []audit.Message) error {
		body, err := proto.Marshal(exportOf(messages))
		if err != nil {
			return err
		}
		return client.Send(ctx, to, "application/x-protobuf", body, headers)
	}
	return audit.Target{Name: "otlp", Send: send, Close: client.CloseIdleConnections}
}

func exportOf(messages []audit.Message) *collectorpb.ExportLogsServiceRequest {
	var records []*logspb.LogRecord
	now := uint64(time.Now().UnixNano())
	for _, m := range messages {
		records = append(records, &logspb.LogRecord{
			TimeUnixNano: uint64(m.Time.UnixNano()), ObservedTimeUnixNano: now,
			SeverityNumber: logspb.SeverityNumber_SEVERITY_NUMBER_INFO, SeverityText: "INFO",
			EventName: "audit." + m.Kind, Body: text(m.Text),
		})
	}
	return &collectorpb.ExportLogsServiceRequest{ResourceLogs: []*logspb.ResourceLogs{{
		Resource: &resourcepb.Resource{Attributes: []*commonpb.KeyValue{
			{Key: "service.name", Value: text("patchbay")},
		}},
		ScopeLogs: []*logspb.ScopeLogs{{
			Scope: &commonpb.InstrumentationScope{Name: "patchbay/audit"}, LogRecords: records,
		}},
	}}}
}

func text(value string) *commonpb.AnyValue {
	return &commonpb.AnyValue{Value: &commonpb.AnyValue_StringValue{StringValue: value}}
}
