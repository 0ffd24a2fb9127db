package openapi

import (
	"net/http"

	"github.com/patchbay-ai/patchbay/internal/metrics"
)

// monitoring describes the operations under /api/monitoring, which have no
// envelope.
func monitoring() []Operation {
	const tag = "Monitoring"
	config := Of(metrics.Settings{})
	counts := map[string]Schema{"activeErrorComponents": integer(), "degradedComponents": integer(), "totalErrors": integer()}
	errors := and(object(counts), map[string]Schema{"components": arrayOf(object(map[string]Schema{
		"component": text(), "operation": text(), "count": integer(), "lastError": text(), "lastOccurred": text(),
	}))})
	level := oneOf("NORMAL", "PARTIAL", "MINIMAL", "DISABLED")
	degradation := object(map[string]Schema{
		"level": level, "levelDescription": text(), "samplingRate": number(),
		"autoModeEnabled": boolean(), "timeSinceLastChange": integer(), "errorComponentCount": integer(),
	})
	cache := object(map[string]Schema{
		"currentSize": integer(), "maxSize": integer(), "usageRatio": number(), "activeRetries": integer(), "queuedRetries": integer(),
	})
	breaker := object(map[string]Schema{
		"state": oneOf("CLOSED", "OPEN", "HALF_OPEN"), "failureCount": integer(), "successCount": integer(), "requestCount": integer(), "failureRate": number(),
	})
	one := func(name string, s Schema) Schema { return object(map[string]Schema{name: s}, name) }
	return append([]Operation{
		{Route: "GET /api/monitoring/config", Tag: tag, Summary: "The monitoring configuration", Reply: config},
		{Route: "PUT /api/monitoring/config/enabled", Tag: tag, Summary: "Switch monitoring on or off; counts so far are kept", Body: one("enabled", boolean()), Reply: config},
		{Route: "PUT /api/monitoring/config/prefix", Tag: tag, Summary: "Change the prefix of metric names", Body: one("prefix", text()), Reply: config},
		{Route: "PUT /api/monitoring/config/collection-interval", Tag: tag, Summary: "Change the collection interval (ISO 8601)", Body: one("interval", text()), Reply: config},
		{
			Route: "PUT /api/monitoring/config/categories", Tag: tag, Summary: "Choose the categories that are shown",
			Body: one("categories", arrayOf(oneOf("request", "system", "custom"))), Reply: config,
		},
		{
			Route: "PUT /api/monitoring/config/custom-tags", Tag: tag, Summary: "Choose tags for every series",
			Body: one("customTags", Schema{"type": "object", "additionalProperties": text()}), Reply: config,
		},
		{
			Route: "GET /api/monitoring/config/snapshot", Tag: tag, Summary: "The configuration with its time and version",
			Reply: and(config, map[string]Schema{"capturedAt": text(), "version": integer()}),
		},
		{
			Route: "GET /api/monitoring/health", Tag: tag, Summary: "Health of monitoring itself",
			Reply: object(map[string]Schema{"status": text(), "healthy": boolean(), "details": object(map[string]Schema{"metricsCollector": text(), "prometheusRegistry": text(), "configUpdater": text()})}),
		},
		{
			Route: "GET /api/monitoring/overview", Tag: tag, Summary: "Everything about monitoring at a glance",
			Reply: object(map[string]Schema{
				"enabled": boolean(), "prefix": text(), "enabledCategories": arrayOf(text()), "healthy": boolean(),
				"errorStats": object(counts), "degradationStatus": degradation, "cacheStats": cache, "circuitBreakerStats": breaker,
			}),
		},
		{Route: "GET /api/monitoring/errors/stats", Tag: tag, Summary: "Errors of monitoring by component", Reply: errors},
		{
			Route: "POST /api/monitoring/errors/reset", Tag: tag, Summary: "Forget the errors of a component", Reply: errors,
			Body: object(map[string]Schema{"component": text(), "operation": text()}, "component", "operation"),
		},
		{Route: "GET /api/monitoring/degradation/status", Tag: tag, Summary: "How much is recorded", Reply: degradation},
		{Route: "POST /api/monitoring/degradation/level", Tag: tag, Summary: "Set the degradation level", Body: one("level", level), Reply: degradation},
		{Route: "POST /api/monitoring/degradation/auto-mode", Tag: tag, Summary: "Let the level follow the errors, or not", Body: one("enabled", boolean()), Reply: degradation},
		{Route: "POST /api/monitoring/degradation/force-recovery", Tag: tag, Summary: "Return to the normal level", Reply: degradation},
		{Route: "GET /api/monitoring/cache/stats", Tag: tag, Summary: "Records that wait", Reply: cache},
		{Route: "POST /api/monitoring/cache/clear", Tag: tag, Summary: "Drop the records that wait", Reply: cache},
		{Route: "GET /api/monitoring/circuit-breaker/stats", Tag: tag, Summary: "The breaker of the recording", Reply: breaker},
		{Route: "POST /api/monitoring/circuit-breaker/force-open", Tag: tag, Summary: "Stop the delivery of records; traffic is not touched", Reply: breaker},
		{Route: "POST /api/monitoring/circuit-breaker/force-close", Tag: tag, Summary: "Resume the delivery of records", Reply: breaker},
	}, livingState(tag)...)
}

// livingState describes what is read of routing.
func livingState(tag string) []Operation {
	perService := func(s Schema) Schema {
		return object(map[string]Schema{"services": {"type": "object", "additionalProperties": s}})
	}
	instance := object(map[string]Schema{
		"id": text(), "url": text(), "adapter": text(), "status": oneOf("HEALTHY", "UNHEALTHY"), "lastHealthCheck": maybeText(), "responseTime": number(),
		"successRate": number(), "requestCount": integer(), "errorCount": integer(), "circuitBreakerState": text(), "weight": number(), "error": text(),
	})
	share := object(map[string]Schema{"requests": integer(), "percentage": number(), "avgResponseTime": number()})
	client := object(map[string]Schema{"clientIp": text(), "remaining": integer(), "capacity": integer(), "lastRequest": text()})
	call := object(map[string]Schema{
		"requestId": text(), "time": text(), "service": text(), "model": text(), "instance": text(), "status": text(), "httpStatus": integer(),
		"errorCode": text(), "streamed": boolean(), "durationMs": number(), "timeToFirstTokenMs": number(), "attempts": integer(),
		"usage": anything(), "timeline": anything(), "tries": arrayOf(anything()), "traceId": text(),
	})
	filter := func(name string) Parameter { return Parameter{Name: name, Schema: text()} }
	return []Operation{
		{Route: "GET /api/monitoring/instances", Tag: tag, Summary: "Status of every instance", Reply: perService(object(map[string]Schema{"instances": arrayOf(instance)}))},
		{
			Route: "GET /api/monitoring/load-balancer", Tag: tag, Summary: "How calls were distributed",
			Reply: perService(object(map[string]Schema{"strategy": text(), "totalRequests": integer(), "distribution": {"type": "object", "additionalProperties": share}})),
		},
		{
			Route: "GET /api/monitoring/rate-limit", Tag: tag, Summary: "What the rate limits leave",
			Reply: perService(object(map[string]Schema{
				"algorithm": text(), "clientLimits": arrayOf(client),
				"globalLimit": object(map[string]Schema{"capacity": integer(), "remaining": integer(), "refillRate": integer(), "nextRefill": text()}),
			})),
		},
		{
			Route: "GET /api/monitoring/circuit-breaker", Tag: tag, Summary: "The circuit breaker of every instance",
			Reply: object(map[string]Schema{"instances": arrayOf(object(map[string]Schema{
				"id": text(), "service": text(), "state": text(), "forced": boolean(), "heldBy": text(), "heldSince": text(), "failureCount": integer(), "failureThreshold": integer(),
				"successThreshold": integer(), "timeout": integer(), "lastFailure": maybeText(), "nextRetry": maybeText(),
			}))}),
		},
		{
			Route: "GET /api/monitoring/calls", Tag: tag, Summary: "The latest calls, the newest first",
			Query: []Parameter{
				{Name: "limit", Schema: integer(), Description: "100 if left out."},
				filter("service"), filter("model"), filter("instance"), filter("status"), filter("requestId"),
			},
			Reply: object(map[string]Schema{"calls": arrayOf(call), "capacity": integer(), "samplingRate": number()}),
		},
		{Route: "GET /api/monitoring/calls/{requestId}", Tag: tag, Summary: "One call with its timeline", Reply: call},
		{Route: "GET /api/monitoring/stream", Tag: tag, Summary: "Calls as they end, as server-sent events", ReplyType: "text/event-stream", Reply: text()},
	}
}

// operations describes what tools ask beside health.
func operations() []Operation {
	const tag = "Operation"
	return []Operation{
		{Route: "GET /actuator", Tag: tag, Summary: "Links to the endpoints", Reply: object(map[string]Schema{"_links": anything()})},
		{Route: "GET /actuator/health/detailed", Tag: tag, Summary: "Health of every instance", Reply: anything()},
		{Route: "GET /actuator/health/{component}", Tag: tag, Summary: "Health of one component", Reply: component()},
		{Route: "GET /actuator/info", Tag: tag, Summary: "What runs", Reply: anything()},
		{
			Route: "GET /actuator/prometheus", Aliases: []string{"GET /metrics"}, Tag: tag, Summary: "Metrics for scrapers", ReplyType: "text/plain", Reply: text(),
			Query: []Parameter{{Name: "includedNames", Schema: text(), Description: "Names of families, separated by commas."}},
		},
		{Route: "GET /actuator/metrics", Tag: tag, Summary: "The names of all metrics", Reply: object(map[string]Schema{"names": arrayOf(text())})},
		{
			Route: "GET /actuator/metrics/{name}", Tag: tag, Summary: "One metric",
			Query: []Parameter{{Name: "tag", Schema: text(), Description: "key:value; may be repeated."}},
			Reply: object(map[string]Schema{
				"name": text(), "description": text(), "baseUnit": text(),
				"measurements":  arrayOf(object(map[string]Schema{"statistic": text(), "value": number()})),
				"availableTags": arrayOf(object(map[string]Schema{"tag": text(), "values": arrayOf(text())})),
			}),
		},
		{
			Route: "GET /actuator/env", Tag: tag, Summary: "The configuration and where it came from", Reply: anything(),
			Query: []Parameter{{Name: "pattern", Schema: text(), Description: "A regular expression for names."}},
		},
		{Route: "GET /actuator/env/{name}", Tag: tag, Summary: "One setting", Reply: anything()},
		{Route: "GET /actuator/loggers", Tag: tag, Summary: "All loggers and their levels", Reply: anything()},
		{Route: "GET /actuator/loggers/{name}", Tag: tag, Summary: "The level of a logger", Reply: object(map[string]Schema{"configuredLevel": maybeText(), "effectiveLevel": text()})},
		{
			Route: "POST /actuator/loggers/{name}", Tag: tag, Summary: "Set the level of a logger, or clear it with null", Status: http.StatusNoContent,
			Body: object(map[string]Schema{"configuredLevel": maybeText()}),
		},
	}
}
