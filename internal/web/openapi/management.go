package openapi

import "net/http"

// paged are the parameters of lists; with either of them the data is
// {content, page} in place of an array.
func paged(more ...Parameter) []Parameter {
	return append([]Parameter{
		{Name: "page", Schema: integer(), Description: "From 1; with page or size the data is {content, page}."},
		{Name: "size", Schema: integer(), Description: "1 to 100."},
	}, more...)
}

// pages is a list, or with page or size a page of it.
func pages(items Schema) Schema {
	page := object(map[string]Schema{"number": integer(), "size": integer(), "totalElements": integer(), "totalPages": integer()})
	return Schema{"oneOf": []Schema{arrayOf(items), object(map[string]Schema{"content": arrayOf(items), "page": page}, "content", "page")}}
}

func services() []Operation {
	const tag = "Service types"
	return []Operation{
		{
			Route: "GET /api/config/type", Tag: tag, Summary: "All service types and their configuration", Enveloped: true,
			Reply: Schema{"type": "object", "additionalProperties": ref("Service")},
		},
		{Route: "GET /api/config/type/services", Tag: tag, Summary: "The names of the configured service types", Query: paged(), Enveloped: true, Reply: pages(text())},
		{Route: "GET /api/config/type/services/{serviceType}", Tag: tag, Summary: "One service type", Enveloped: true, Reply: ref("Service")},
		{
			Route: "POST /api/config/type/services/{serviceType}", Tag: tag, Enveloped: true, Status: http.StatusCreated, Body: ref("Service"), Reply: ref("Change"),
			Summary: "Create a service type (201), or replace its policy and keep its instances (200)",
		},
		{
			Route: "PUT /api/config/type/services/{serviceType}", Tag: tag, Enveloped: true, Body: ref("Service"), Reply: ref("Change"),
			Summary: "Change what is given; instances, when given, replace the list",
		},
		{Route: "DELETE /api/config/type/services/{serviceType}", Tag: tag, Summary: "Delete a service type and all its configuration", Enveloped: true, Reply: ref("Change")},
		{Route: "GET /api/config/type/{serviceType}/models", Tag: tag, Summary: "The models of a service type", Query: paged(), Enveloped: true, Reply: pages(text())},
		{Route: "POST /api/config/type/reset", Tag: tag, Summary: "Make the static configuration a new version", Enveloped: true, Reply: ref("Change")},
		{
			Route: "GET /api/models", Tag: tag, Summary: "The models of all service types", Query: paged(), Enveloped: true,
			Reply: object(map[string]Schema{"object": text(), "data": arrayOf(and(model(), map[string]Schema{"service_type": ref("ServiceType"), "adapter": text()}))}),
		},
		{
			Route: "GET /api/route/explain", Tag: tag, Summary: "What would happen to a request now, and why", Enveloped: true,
			Query: []Parameter{
				{Name: "service", Required: true, Schema: ref("ServiceType")},
				{Name: "model", Required: true, Schema: text()},
				{Name: "clientIp", Schema: text(), Description: "The address of the client; yours if left out."},
			},
			Reply: object(map[string]Schema{
				"service": text(), "model": text(), "clientIp": text(), "strategy": maybeText(), "pick": maybeText(), "why": text(),
				"candidates": arrayOf(object(map[string]Schema{"instanceId": text(), "eligible": boolean(), "reason": text(), "chance": number(), "inFlight": integer()})),
				"limits":     anything(), "queue": anything(), "quota": anything(), "refusal": anything(),
			}),
		},
	}
}

func instances() []Operation {
	const tag = "Instances"
	which := []Parameter{{Name: "modelName", Required: true, Schema: text()}, {Name: "baseUrl", Required: true, Schema: text()}}
	return []Operation{
		{Route: "GET /api/config/instance/type/{serviceType}", Tag: tag, Summary: "The instances of a service type", Query: paged(), Enveloped: true, Reply: pages(ref("Instance"))},
		{
			Route: "GET /api/config/instance/info/{serviceType}", Tag: tag, Summary: "One instance and its health", Query: which, Enveloped: true,
			Reply: and(ref("Instance"), map[string]Schema{"healthStatus": text(), "healthReason": text(), "lastHealthCheck": maybeText()}),
		},
		{
			Route: "POST /api/config/instance/add/{serviceType}", Tag: tag, Summary: "Add an instance", Enveloped: true,
			Status: http.StatusCreated, Body: ref("Instance"), Reply: ref("Change"),
		},
		{
			Route: "PUT /api/config/instance/update/{serviceType}", Tag: tag, Enveloped: true, Reply: ref("Change"),
			Summary: "Change what is given of an instance; an apiKey that is left out, null or a mask stays",
			Body:    object(map[string]Schema{"instanceId": text(), "instance": ref("Instance")}, "instanceId", "instance"),
		},
		{Route: "DELETE /api/config/instance/del/{serviceType}", Tag: tag, Summary: "Delete an instance", Query: which, Enveloped: true, Reply: ref("Change")},
		{
			Route: "POST /api/config/instance/circuit-breaker/{serviceType}", Tag: tag, Enveloped: true,
			Summary: "Hold the circuit breaker of an instance open or closed, or let go of it; no version",
			Body:    object(map[string]Schema{"instanceId": text(), "state": oneOf("OPEN", "CLOSED", "AUTO")}, "instanceId", "state"),
			Reply:   object(map[string]Schema{"instanceId": text(), "state": text(), "forced": text(), "heldBy": text(), "heldSince": text(), "changed": boolean()}),
		},
	}
}

func versions() []Operation {
	const tag = "Versions"
	version := map[string]Schema{
		"version": integer(), "current": boolean(), "createdAt": {"type": "string", "format": "date-time"},
		"origin": text(), "author": text(), "summary": text(),
		"config": object(map[string]Schema{"services": {"type": "object", "additionalProperties": ref("Service")}}),
	}
	return []Operation{
		{
			Route: "GET /api/config/version", Tag: tag, Summary: "The numbers of the versions", Enveloped: true, Reply: pages(Schema{"type": []string{"integer", "object"}}),
			Query: paged(Parameter{Name: "details", Schema: boolean(), Description: "With time, origin, author and summary, the newest first."}),
		},
		{Route: "GET /api/config/version/current", Tag: tag, Summary: "The version in force", Enveloped: true, Reply: integer()},
		{Route: "GET /api/config/version/{version}", Tag: tag, Summary: "One version", Enveloped: true, Reply: object(version)},
		{
			Route: "GET /api/config/version/diff", Tag: tag, Summary: "What changed between two versions", Enveloped: true,
			Query: []Parameter{{Name: "from", Required: true, Schema: integer()}, {Name: "to", Schema: integer(), Description: "The version in force if left out."}},
			Reply: object(map[string]Schema{"from": integer(), "to": integer(), "changes": arrayOf(ref("Difference")), "text": text()}),
		},
		{Route: "POST /api/config/version/rollback/{version}", Tag: tag, Summary: "Roll back to a version", Enveloped: true, Reply: ref("Change")},
		{Route: "POST /api/config/version/apply/{version}", Tag: tag, Summary: "Apply a version", Enveloped: true, Reply: ref("Change")},
		{Route: "DELETE /api/config/version/{version}", Tag: tag, Summary: "Delete a version that is not in force", Enveloped: true, Reply: ref("Change")},
		{
			Route: "POST /api/config/merge/backup", Tag: tag, Summary: "Copy all versions into a directory of their own", Enveloped: true,
			Reply: object(map[string]Schema{"path": text(), "files": arrayOf(text())}),
		},
	}
}

func keys() []Operation {
	const tag = "API keys"
	return []Operation{
		{Route: "GET /api/auth/keys", Tag: tag, Summary: "The API keys, without the keys themselves", Query: paged(), Enveloped: true, Reply: pages(ref("Key"))},
		{
			Route: "POST /api/auth/keys", Tag: tag, Summary: "Issue a key; it is shown this once", Enveloped: true, Status: http.StatusCreated, Reply: ref("Key"),
			Body: object(map[string]Schema{
				"id": text(), "tenant": text(), "services": arrayOf(ref("ServiceType")), "models": arrayOf(text()), "expiresAt": {"type": "string", "format": "date-time"},
			}),
		},
		{Route: "DELETE /api/auth/keys/{id}", Tag: tag, Summary: "Revoke a key at once", Enveloped: true, Reply: object(map[string]Schema{"id": text(), "changed": boolean()})},
	}
}

// component is a part of health. The stores and the sources of the configuration
// are DEGRADED while they are away, which leaves the whole UP.
func component() Schema {
	return object(map[string]Schema{
		"status": oneOf("UP", "DOWN", "OUT_OF_SERVICE", "DEGRADED"),
		"details": {
			"type": "object",
			"description": "Of ledgerJournal, ledgerDatabase, redis, configDatabase and configFile: failures, and while they are DEGRADED since and reason; " +
				"of configFile also lastRead.",
		},
	}, "status")
}

func tokens() []Operation {
	const tag = "Management tokens"
	return []Operation{
		{Route: "GET /api/auth/tokens", Tag: tag, Summary: "The management tokens, without the tokens themselves", Query: paged(), Enveloped: true, Reply: pages(ref("Token"))},
		{
			Route: "POST /api/auth/tokens", Tag: tag, Summary: "Issue a token; it is shown this once", Enveloped: true, Status: http.StatusCreated, Reply: ref("Token"),
			Body: object(map[string]Schema{
				"name": text(), "role": oneOf("ADMIN", "OPERATOR", "VIEWER"), "expiresAt": {"type": "string", "format": "date-time"},
			}, "role"),
		},
		{
			Route: "POST /api/auth/tokens/{name}/rotate", Tag: tag, Enveloped: true, Reply: ref("Token"),
			Summary: "Give a token that was issued a new text, which is shown this once; the old one is refused at once",
		},
		{
			Route: "DELETE /api/auth/tokens/{name}", Tag: tag, Summary: "Revoke a token at once, also one of the configuration file", Enveloped: true,
			Reply: object(map[string]Schema{"name": text(), "changed": boolean()}),
		},
	}
}

func actuator() []Operation {
	const tag = "Operation"
	status := object(map[string]Schema{"status": text()}, "status")
	health := object(map[string]Schema{
		"status": oneOf("UP", "DOWN", "OUT_OF_SERVICE"), "groups": arrayOf(text()),
		"components": {"type": "object", "additionalProperties": component(), "description": "For callers who may see details."},
	}, "status")
	return []Operation{
		{Route: "GET /actuator/health", Tag: tag, Summary: "Health, and of what it is made", Reply: health},
		{Route: "GET /actuator/health/liveness", Tag: tag, Summary: "Whether the process runs", Reply: status},
		{Route: "GET /actuator/health/readiness", Tag: tag, Summary: "Whether requests are welcome", Reply: status},
	}
}

func documents() []Operation {
	const tag = "This document"
	return []Operation{
		{Route: "GET /", Tag: tag, Summary: "Version and links; a page where Accept names text/html",
			Reply: object(map[string]Schema{"name": text(), "version": text(), "links": {"type": "object", "additionalProperties": text()}})},
		{Route: "GET /openapi.json", Tag: tag, Summary: "This document", Reply: Schema{"type": "object"}},
		{Route: "GET /docs/api", Tag: tag, Summary: "A page that shows this document and tries the operations", ReplyType: "text/html", Reply: text()},
		{Route: "GET /docs/api/{file}", Tag: tag, Summary: "The script and the style of that page", ReplyType: "text/javascript", Reply: text()},
	}
}
