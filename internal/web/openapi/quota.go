package openapi

func quotas() []Operation {
	const tag = "Quota"
	window := oneOf("MINUTE", "HOUR", "DAY", "MONTH")
	distributed := object(map[string]Schema{"enabled": boolean(), "keyPrefix": text(), "timeoutMs": integer(), "degradeToLocal": boolean()})
	config := object(map[string]Schema{
		"enabled": boolean(), "failOpen": boolean(), "windows": arrayOf(window), "flushIntervalSeconds": integer(),
		"retention":   object(map[string]Schema{"minute": text(), "hour": text(), "day": text(), "month": text()}),
		"distributed": distributed, "backendName": oneOf("local", "redis"), "hotEditableFields": arrayOf(text()), "restartRequiredFields": arrayOf(text()),
	})
	moment := Schema{"type": "string", "format": "date-time"}
	return []Operation{
		{Route: "GET /api/config/quota", Tag: tag, Summary: "The configuration of the quota ledger", Enveloped: true, Reply: config},
		{
			Route: "PUT /api/config/quota", Tag: tag, Enveloped: true, Reply: config,
			Summary: "Change the quota ledger until the next restart or reload; other fields need a restart (400 RESTART_REQUIRED)",
			Body:    object(map[string]Schema{"enabled": boolean(), "failOpen": boolean(), "windows": arrayOf(window)}),
		},
		{
			Route: "GET /api/monitoring/quota/status", Tag: tag, Summary: "How the quota ledger is", Enveloped: true,
			Reply: object(map[string]Schema{
				"enabled": boolean(), "backendName": text(), "degraded": boolean(), "degradedReason": text(), "failOpen": boolean(),
				"windows": arrayOf(window), "distributed": distributed,
				"redisProbe":     object(map[string]Schema{"reachable": boolean(), "status": oneOf("healthy", "degraded", "error"), "reason": text()}),
				"counterMetrics": object(map[string]Schema{"degradationCount": integer()}),
			}),
		},
		{
			Route: "GET /api/monitoring/quota/usage", Tag: tag, Summary: "Requests and tokens by window; of the open windows, or of those that began between from and to", Enveloped: true,
			Query: paged(
				Parameter{Name: "tenantId", Schema: text()}, Parameter{Name: "apiKeyId", Schema: text()}, Parameter{Name: "userId", Schema: text()},
				Parameter{Name: "serviceType", Schema: text()}, Parameter{Name: "model", Schema: text()}, Parameter{Name: "window", Schema: window},
				Parameter{Name: "from", Schema: moment}, Parameter{Name: "to", Schema: moment},
			),
			Reply: pages(object(map[string]Schema{
				"dimensions": object(map[string]Schema{"tenantId": text(), "apiKeyId": text(), "userId": text(), "serviceType": text(), "model": text()}),
				"window":     window, "windowStart": moment, "requestCount": integer(), "tokenCount": integer(),
			})),
		},
	}
}
