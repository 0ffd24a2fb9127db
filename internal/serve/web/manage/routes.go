package manage

import (
	"net/http"
	"slices"

	"github.com/patchbay-ai/patchbay/internal/access"
	"github.com/patchbay-ai/patchbay/internal/serve/web"
)

// Routes returns the operations of the management API.
func (a *API) Routes() []web.Route {
	return a.Complete(slices.Concat(a.services(), a.instances(), a.versions(), a.terms(), a.settings(), a.quota(),
		a.sessions(), a.keys(), a.tokens()))
}

// Complete turns the entries without a handler into operations of the management API.
func (a *API) Complete(table []web.Route) []web.Route {
	s, ledger := a.surface(a.fail), a.surface(a.failQuota)
	for i := range table {
		switch one := table[i : i+1]; {
		case table[i].Handler != nil:
		case table[i].Tag == QuotaTag:
			ledger.Routes(QuotaTag, one)
		default:
			s.Routes(table[i].Tag, one)
		}
	}
	return table
}

// QuotaTag is the heading of the operations of the ledger. Their errors have codes.
const QuotaTag = "Quota"

// notFound is the status of an error that does not follow from an operation's query, body and
// permission.
var notFound = []int{http.StatusNotFound}

func (a *API) services() []web.Route {
	return web.Group("Service types", access.ReadTypes, access.WriteTypes, web.OfGateway, []web.Route{
		{
			Pattern: "GET /api/config/type", Does: web.Do(a.allServices),
			Summary: "All service types and their configuration", Says: "The service types and their configuration.",
		},
		{
			Pattern: "GET /api/config/type/services", Does: web.List(a.serviceNames),
			Summary: "The names of the configured service types", Says: "The configured service types.",
		},
		{
			Pattern: "GET /api/config/type/services/{serviceType}",
			Does:    web.Do(a.service),
			Summary: "One service type; as a section of a configuration file where Accept names application/yaml",
			Says:    "The configuration of the service type.", Media: map[string]any{mediaYAML: ""},
		},
		{
			Pattern: "POST /api/config/type/services/{serviceType}",
			Does:    web.Do(a.putService),
			Summary: "Create a service type (201), or replace its policy and keep its instances (200)",
			Says:    "The service type was created.", Body: serviceView{}, Status: http.StatusCreated, Versioned: true,
		},
		{
			Pattern: "PUT /api/config/type/services/{serviceType}",
			Does:    web.Do(a.mergeService),
			Summary: "Change what is given; instances, when given, replace the list", Body: serviceView{},
			Versioned: true,
		},
		{
			Pattern: "DELETE /api/config/type/services/{serviceType}",
			Does:    web.Do(a.deleteService),
			Summary: "Delete a service type and all its configuration", Versioned: true,
			Says: "The service type and all its configuration were deleted.",
		},
		{
			Pattern: "GET /api/config/type/{serviceType}/models",
			Does:    web.List(a.serviceModels),
			Summary: "The models of a service type", Says: "The models of the service type.",
		},
		{
			Pattern: "POST /api/config/type/reset", Does: web.Do(a.reset),
			Summary: "Make the static configuration a new version", Says: "The static configuration is in force again.",
			Versioned: true,
		},
		{
			Pattern: "GET /api/models", Permission: access.ReadModels, Does: web.DoWith(a.models),
			Summary: "The models of all service types", Says: "The models of all service types.",
		},
		{
			Pattern: "GET /api/route/explain", Permission: access.ReadRoutes, Does: web.DoWith(a.explain),
			Summary: "What would happen to a request now, and why", Says: "What would happen to a request now.",
		},
		{
			Pattern: "POST /api/route/explain", Permission: access.WriteInstances, Does: web.DoWith(a.explainBody),
			Summary: "What would happen to the request in the body now, as it would be sent to its endpoint, and " +
				"why; nothing is called",
			Says: "What would happen to a request now.", Body: map[string]any{}, NoDryRun: true, Asks: true,
		},
	})
}

func (a *API) instances() []web.Route {
	return web.Group("Instances", access.ReadInstances, access.WriteInstances, web.OfGateway, []web.Route{
		{
			Pattern: "GET /api/config/instance/type/{serviceType}",
			Does:    web.List(a.instancesOf),
			Summary: "The instances of a service type", Says: "The instances of the service type.",
		},
		{
			Pattern: "GET /api/config/instance/info/{serviceType}",
			Does:    web.DoWith(a.instanceInfo),
			Summary: "One instance and its health", Says: "The instance and its health.",
		},
		{
			Pattern: "POST /api/config/instance/add/{serviceType}",
			Does:    web.Do(a.addInstance),
			Summary: "Add an instance; its name and baseUrl must not be those of another one", Body: instanceView{},
			Says: "The instance was added.", Status: http.StatusCreated, Versioned: true,
		},
		{
			Pattern: "POST /api/config/instance/add", Does: web.Do(a.addInstances),
			Summary: "Add several instances, of any service types, as one version", Body: addRequest{},
			Status: http.StatusCreated, Versioned: true,
		},
		{
			Pattern: "PUT /api/config/instance/update/{serviceType}",
			Does:    web.Do(a.updateInstance),
			Summary: "Change what is given of an instance; an apiKey that is left out, null or a mask stays",
			Says:    "The instance was changed.", Body: updateRequest{}, Versioned: true, Takes: disables,
		},
		{
			Pattern: "DELETE /api/config/instance/del/{serviceType}",
			Does:    web.Do(a.deleteInstance),
			Summary: "Delete an instance", Query: instanceQuery{}, Versioned: true,
			Says: "The instance was deleted; requests that it is answering go on to their end.",
		},
		{
			Pattern: "POST /api/config/instance/test/{serviceType}",
			Does:    web.Do(a.testInstance),
			Summary: "Make one small real call to an instance, stored (instanceId) or as typed (instance); nothing " +
				"is stored or counted",
			Says: "The backend answered.", Body: testRequest{}, NoDryRun: true,
		},
		{
			Pattern: "GET /api/config/providers", Does: web.List(a.providers),
			Summary: "Providers with their addresses, for a form that adds a backend", Says: "The known providers.",
		},
		{
			Pattern: "POST /api/config/discover", Does: web.DoBody(a.discover),
			Summary: "Ask a backend which models it has; a stored key is never sent", NoDryRun: true,
		},
		{
			Pattern: "GET /api/models/residency", Permission: access.ReadModels, Does: web.List(a.residents),
			Summary: "Which models are in memory, asleep or being loaded, of those that are loaded for requests and " +
				"put to sleep",
			Says: "The models that are loaded for requests and put to sleep.",
		},
		{
			Pattern: "POST /api/config/instance/load/{serviceType}",
			Does:    web.DoBody(a.loadModel),
			Summary: "Load the model of an instance; answered when it is in memory. It is given up if nobody waits " +
				"any more; no version",
			Says: "The model is in memory.", Errors: []int{http.StatusBadGateway, http.StatusGatewayTimeout},
		},
		{
			Pattern: "POST /api/config/instance/sleep/{serviceType}",
			Does:    web.DoBody(a.sleepModel),
			Summary: "Put the model of an instance to sleep, or out of memory, unless it is in use or pinned; no " +
				"version",
			Says: "The model is not in memory.", Errors: []int{http.StatusBadGateway},
		},
		{
			Pattern: "POST /api/config/instance/circuit-breaker/{serviceType}",
			Does:    web.DoBody(a.forceBreaker), Says: "The circuit breaker was set.", Takes: opensBreaker,
			Summary: "Hold the circuit breaker of an instance open or closed, or let go of it; no version",
		},
	})
}

func (a *API) versions() []web.Route {
	return web.Group("Versions", access.ReadVersions, access.WriteVersions, web.OfGateway, []web.Route{
		{
			Pattern: "GET /api/config/version", Does: web.DoWith(a.listVersions),
			Summary: "The versions of the configuration", Says: "The stored versions.", Reply: versionList{},
		},
		{
			Pattern: "GET /api/config/version/current", Does: web.Do(a.currentVersion),
			Summary: "The version in force", Says: "The version in force.",
		},
		{
			Pattern: "GET /api/config/version/next", Does: web.Do(a.nextVersion),
			Summary: "The number of the version that the next change makes", Says: "The number of the next version.",
		},
		{
			Pattern: "GET /api/config/version/diff", Does: web.Do(a.diffVersions),
			Summary: "What changed between two versions", Says: "What changed between the versions.",
			Query: diffQuery{}, Errors: notFound,
		},
		{
			Pattern: "GET /api/config/version/{version}", Does: web.Do(a.version),
			Summary: "One version; its services as a section of a configuration file where Accept names " +
				"application/yaml",
			Says: "The version and its configuration.", Media: map[string]any{mediaYAML: ""},
		},
		{
			Pattern: "POST /api/config/version/rollback/{version}",
			Does:    web.Do(a.useVersion),
			Summary: "Roll back to a version", Says: "The configuration was rolled back to the version.",
			Versioned: true,
		},
		{
			Pattern: "POST /api/config/version/apply/{version}",
			Does:    web.Do(a.useVersion),
			Summary: "Apply a version", Says: "The version is in force.", Versioned: true,
		},
		{
			Pattern: "DELETE /api/config/version/{version}",
			Does:    web.Do(a.deleteVersion),
			Summary: "Delete a version that is not in force", Says: "The version was deleted.", Versioned: true,
		},
		{
			Pattern: "GET /api/config/backup", Does: web.DoWith(a.downloadBackup),
			Summary: "All versions as an archive, one file each", Media: map[string]any{mediaZIP: ""}, Audited: true,
		},
		{
			Pattern: "GET /api/config/export", Permission: access.WriteTypes, Does: web.DoWith(a.exportFile),
			Summary: "The configuration in force as a configuration file; literal secrets are references to " +
				"variables without secrets=true",
			Media: map[string]any{mediaYAML: ""}, Audited: true,
		},
		{
			Pattern: "POST /api/config/merge/backup", Does: web.Do(a.backUp),
			Summary: "Copy all versions into a directory of their own", Says: "All versions were copied.",
		},
	})
}

func (a *API) terms() []web.Route {
	return web.Group("Terms of keys", access.ReadTerms, access.WriteTerms, web.OfGateway, []web.Route{
		{
			Pattern: "GET /api/config/terms", Does: web.Do(a.showTerms),
			Summary: "The limits, budgets and scopes of tenants, and the defaults of all keys",
			Says:    "The terms of keys and tenants.",
		},
		{
			Pattern: "PUT /api/config/terms", Does: web.DoBody(a.putTerms),
			Summary: "Change the defaults, or the list of tenants; each is replaced where it is given. They are in " +
				"force at once, " +
				"on all gateways that share the configuration, in place of security.defaults and security.tenants of " +
				"the configuration file",
			Says: "The terms were changed; requests from now on are held to them.", Versioned: true,
		},
		{
			Pattern: "DELETE /api/config/terms", Does: web.Do(a.dropTerms),
			Summary: "Let the configuration file of each gateway decide again",
			Says:    "The terms of the configuration file are in force.", Versioned: true,
		},
		{
			Pattern: "PUT /api/config/terms/tenants/{tenant}", Does: web.Do(a.putTenant),
			Summary: "Change what is given of the terms of a tenant, which is added where it is not there",
			Body:    access.Terms{},
			Says:    "The terms of the tenant were changed; requests from now on are held to them.", Versioned: true,
		},
		{
			Pattern: "DELETE /api/config/terms/tenants/{tenant}",
			Does:    web.Do(a.deleteTenant),
			Summary: "Remove the terms of a tenant; its keys keep theirs", Says: "The tenant has no terms any more.",
			Versioned: true,
		},
	})
}

func (a *API) quota() []web.Route {
	return web.Group(QuotaTag, access.ReadQuota, access.WriteQuota, web.OfGateway, []web.Route{
		{
			Pattern: "GET /api/config/quota", Does: web.Do(a.quotaConfig),
			Summary: "The configuration of the quota ledger", Says: "The configuration of the quota ledger.",
		},
		{
			Pattern: "PUT /api/config/quota", Does: web.Do(a.editQuota),
			Body: quotaRequest{},
			Summary: "Change the quota ledger until the next restart or reload; other fields need a restart (400 " +
				"RESTART_REQUIRED)",
		},
		{
			Pattern: "GET /api/monitoring/quota/status", Permission: access.ReadQuotaUsage, Does: web.Do(a.quotaStatus),
			Summary: "How the quota ledger is", Says: "The state of the quota ledger.",
		},
		{
			Pattern: "GET /api/monitoring/quota/usage", Permission: access.ReadQuotaUsage,
			Does:    web.DoWith(a.quotaUsage),
			Summary: "Requests and tokens by window; of the open windows, or of those that began between from and to",
			Reply:   web.ListOf[quotaUsageView]{},
		},
	})
}

func (a *API) sessions() []web.Route {
	return web.Group("Sessions", access.ReadSelf, access.ManageSessions, nil, []web.Route{
		{
			Pattern: "GET /api/auth/me", Team: access.Member, Does: web.Do(a.self),
			Summary: "Who sends this request, and what that role may do", Says: "You.",
		},
		{
			Pattern: "GET /api/auth/roles", Does: web.Do(a.roles),
			Summary: "The roles of management tokens, and the permissions of each", Says: "The roles, the least first.",
		},
		{
			Pattern: "POST /api/auth/session", Permission: access.UseSession, SignsIn: true, Concerns: web.OfGateway,
			Does: web.Do(a.beginSession),
			Summary: "Exchange the management token of this request for a session, which a browser keeps in a cookie " +
				"that scripts cannot read; where security is off, there are none (400)",
			Says: "The session has begun.", Status: http.StatusCreated,
		},
		{
			Pattern: "DELETE /api/auth/session", Takes: web.Always, Permission: access.UseSession, Team: access.Member,
			Does: web.Do(a.endSession), Concerns: web.OfGateway,
			Summary: "End the session of this request; a copy of its cookie is worth nothing from then on",
			Says:    "The session has ended.", Errors: []int{http.StatusServiceUnavailable},
		},
		{
			Pattern: "GET /api/auth/sessions", Permission: access.ManageSessions, Does: web.List(a.listSessions),
			Summary: "The sessions of all people and tokens, the newest first", Says: "The sessions.",
			Errors: []int{http.StatusServiceUnavailable},
		},
		{
			Pattern: "DELETE /api/auth/sessions/{id}", Takes: web.Always,
			Does: web.Do(a.endOne), Concerns: web.ByReply(func(s *heldSession) string { return s.tenant }),
			Summary: "End a session, on all gateways within seconds", Says: "The session has ended.",
			Errors: []int{http.StatusNotFound, http.StatusServiceUnavailable},
		},
	})
}

func (a *API) keys() []web.Route {
	return web.Group("API keys", access.ManageKeys, access.ManageKeys, a.TenantOfKey, []web.Route{
		{
			Pattern: "GET /api/auth/keys", Does: web.List(a.listKeys),
			Summary: "The API keys, without the keys themselves", Says: "The API keys.",
		},
		{
			Pattern: "POST /api/auth/keys",
			Does:    web.DoBody(a.issueKey),
			Summary: "Issue a key; it is shown this once", Says: "The key was issued. It is shown this once only.",
			Status: http.StatusCreated,
		},
		{
			Pattern: "PUT /api/auth/keys/{id}",
			Does:    web.Do(a.editKey),
			Body:    keyTerms{},
			Summary: "Change what is given of a key that was issued: its tenant, scope, expiry and limits; at once",
			Says:    "The key was changed; requests from now on are held to it.",
		},
		{
			Pattern:      "POST /api/auth/keys/{id}/rotate",
			Does:         web.DoBody(a.RotateKey),
			BodyOptional: true,
			Summary: "Give a key that was issued a new text, which is shown this once; the old one stays good for " +
				"the overlap",
		},
		{
			Pattern: "POST /api/auth/keys/{id}/enable", Does: web.Do(a.enableKey),
			Summary: "Make a key good that a backup without a signature had",
			Says:    "The key is good from now on.",
		},
		{
			Pattern: "DELETE /api/auth/keys/{id}", Takes: web.Always,
			Does:    web.Do(a.RevokeKey),
			Summary: "Revoke a key at once",
		},
	})
}

func (a *API) tokens() []web.Route {
	return web.Group("Management tokens", access.ManageTokens, access.ManageTokens, web.OfGateway, []web.Route{
		{
			Pattern: "GET /api/auth/tokens", Does: web.List(a.listTokens),
			Summary: "The management tokens, without the tokens themselves", Says: "The management tokens.",
		},
		{
			Pattern: "POST /api/auth/tokens", Does: web.DoBody(a.issueToken),
			Summary: "Issue a token; it is shown this once; where security is off, none is issued (403)",
			Says:    "The token was issued. It is shown this once only.", Status: http.StatusCreated,
		},
		{
			Pattern: "PUT /api/auth/tokens/{name}", Does: web.Do(a.editToken),
			Body:    tokenTerms{},
			Summary: "Change what is given of a token that was issued: its role and expiry; at once",
			Says:    "The token was changed; requests from now on are held to it.",
		},
		{
			Pattern: "POST /api/auth/tokens/{name}/rotate",
			Does:    web.Do(a.rotateToken),
			Summary: "Give a token that was issued a new text, which is shown this once; the old one is refused at " +
				"once",
			Says: "The token has a new text, which is shown this once only; the old one is refused from now on.",
		},
		{
			Pattern: "POST /api/auth/tokens/{name}/enable",
			Does:    web.Do(a.enableToken),
			Summary: "Make a token good that a backup without a signature had",
			Says:    "The token is good from now on.",
		},
		{
			Pattern: "DELETE /api/auth/tokens/{name}", Takes: web.Always,
			Does:    web.Do(a.revokeToken),
			Summary: "Revoke a token at once, also one of the configuration file",
		},
	})
}
