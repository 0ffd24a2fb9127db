package manage

import (
	"net/http"

	"github.com/patchbay-ai/patchbay/internal/request/schema"
	"github.com/patchbay-ai/patchbay/internal/serve/access"
	"github.com/patchbay-ai/patchbay/internal/serve/web"
	"github.com/patchbay-ai/patchbay/internal/serve/web/explain"
	"github.com/patchbay-ai/patchbay/internal/serve/web/tryout"
)

// routeTable collects the routes of one heading of the document.
type routeTable struct {
	api    *API
	tag    string
	handle func(Operation) http.HandlerFunc
	routes []web.Route
}

// unversioned adds an operation of any method that makes no version of the configuration:
// it reads, or changes what has no versions, such as keys.
func (t *routeTable) unversioned(pattern string, permission access.Permission, op Operation, described web.Route) {
	described.Tag, described.Enveloped, described.Error = t.tag, true, web.Fault{}
	if described.NoDryRun {
		op = refusingDryRun(op)
	}
	described.Pattern, described.Permission, described.Handler = pattern, permission, t.handle(op)
	t.routes = append(t.routes, described)
}

// refusingDryRun refuses to do as if: the operation has no other effect than its reply.
func refusingDryRun(op Operation) Operation {
	return func(q *Request) (Reply, error) {
		if q.change.DryRun {
			return Reply{}, invalidField(dryRunFlag, "is not available here; nothing was called")
		}
		return op(q)
	}
}

// versioned adds an operation that makes a version of the configuration. It has dryRun,
// If-Match and the errors of a change.
func (t *routeTable) versioned(pattern string, permission access.Permission, op Operation, described web.Route) {
	described.Reply, described.Versioned = changeView{}, true
	t.unversioned(pattern, permission, op, described)
}

// Routes returns the operations of the management API.
func (a *API) Routes() []web.Route {
	t := &routeTable{api: a, handle: a.Handle}
	t.addServices()
	t.addInstances()
	t.addProcesses()
	t.addBatches()
	t.addVersions()
	t.addTerms()
	t.addQuota()
	t.addCredentials()
	return t.routes
}

func (t *routeTable) addServices() {
	a := t.api
	t.tag = "Service types"
	t.unversioned("GET /api/config/type", access.ReadTypes, a.Services, web.Route{
		Summary: "All service types and their configuration", Reply: map[schema.ServiceType]serviceView{},
	})
	t.unversioned("GET /api/config/type/services", access.ReadTypes, a.ServiceNames, web.Route{
		Summary: "The names of the configured service types", Query: pageQuery{}, Reply: listOf[schema.ServiceType]{},
	})
	t.unversioned("GET /api/config/type/services/{serviceType}", access.ReadTypes, a.Service, web.Route{
		Summary: "One service type; as a section of a configuration file where Accept names application/yaml", Reply: serviceView{}, Media: map[string]any{mediaYAML: ""},
	})
	t.versioned("POST /api/config/type/services/{serviceType}", access.WriteTypes, a.PutService, web.Route{
		Summary: "Create a service type (201), or replace its policy and keep its instances (200)", Body: serviceView{}, Status: http.StatusCreated,
	})
	t.versioned("PUT /api/config/type/services/{serviceType}", access.WriteTypes, a.MergeService, web.Route{
		Summary: "Change what is given; instances, when given, replace the list", Body: serviceView{},
	})
	t.versioned("DELETE /api/config/type/services/{serviceType}", access.WriteTypes, a.DeleteService, web.Route{
		Summary: "Delete a service type and all its configuration",
	})
	t.unversioned("GET /api/config/type/{serviceType}/models", access.ReadTypes, a.ServiceModels, web.Route{
		Summary: "The models of a service type", Query: pageQuery{}, Reply: listOf[string]{},
	})
	t.versioned("POST /api/config/type/reset", access.WriteTypes, a.Reset, web.Route{Summary: "Make the static configuration a new version"})
	t.unversioned("GET /api/models", access.ReadModels, a.Models, web.Route{
		Summary: "The models of all service types", Query: pageQuery{}, Reply: modelEntries{},
	})
	t.unversioned("GET /api/answer-cache", access.ReadRoutes, a.AnswerCache, web.Route{
		Summary: "What the cache of answers keeps", Reply: answerCacheView{},
	})
	t.unversioned("DELETE /api/answer-cache", access.WriteTypes, a.ClearAnswerCache, web.Route{
		Summary: "Remove all answers from the cache, in all gateways that share it", Reply: answerCacheView{}, Errors: []int{http.StatusServiceUnavailable},
	})
	t.unversioned("GET /api/route/explain", access.ReadRoutes, a.Explain, web.Route{
		Summary: "What would happen to a request now, and why", Query: explainQuery{}, Reply: explain.Explanation{},
	})
	t.unversioned("POST /api/route/explain", access.WriteInstances, a.ExplainBody, web.Route{
		Summary: "What would happen to the request in the body now, as it would be sent to its endpoint, and why; nothing is called", Query: explainBodyQuery{}, Body: map[string]any{}, Reply: explain.Explanation{}, NoDryRun: true,
	})
}

func (t *routeTable) addInstances() {
	a := t.api
	t.tag = "Instances"
	t.unversioned("GET /api/config/instance/type/{serviceType}", access.ReadInstances, a.Instances, web.Route{
		Summary: "The instances of a service type", Query: pageQuery{}, Reply: listOf[instanceView]{},
	})
	t.unversioned("GET /api/config/instance/info/{serviceType}", access.ReadInstances, a.InstanceInfo, web.Route{
		Summary: "One instance and its health", Query: instanceQuery{}, Reply: instanceInfo{},
	})
	t.versioned("POST /api/config/instance/add/{serviceType}", access.WriteInstances, a.AddInstance, web.Route{
		Summary: "Add an instance; its name and baseUrl must not be those of another one", Body: instanceView{}, Status: http.StatusCreated,
	})
	t.versioned("POST /api/config/instance/add", access.WriteInstances, a.AddInstances, web.Route{
		Summary: "Add several instances, of any service types, as one version", Body: addRequest{}, Status: http.StatusCreated,
	})
	t.versioned("PUT /api/config/instance/update/{serviceType}", access.WriteInstances, a.UpdateInstance, web.Route{
		Summary: "Change what is given of an instance; an apiKey that is left out, null or a mask stays", Body: updateRequest{},
	})
	t.versioned("DELETE /api/config/instance/del/{serviceType}", access.WriteInstances, a.DeleteInstance, web.Route{
		Summary: "Delete an instance", Query: instanceQuery{},
	})
	t.unversioned("POST /api/config/instance/test/{serviceType}", access.WriteInstances, a.TestInstance, web.Route{
		Summary: "Make one small real call to an instance, stored (instanceId) or as typed (instance); nothing is stored or counted", Body: testRequest{}, Reply: tryout.Result{}, NoDryRun: true,
	})
	t.unversioned("POST /api/config/discover", access.WriteInstances, a.Discover, web.Route{
		Summary: "Ask a backend which models it has; a stored key is never sent", Body: discoverRequest{}, Reply: discovery{}, NoDryRun: true,
	})
	t.unversioned("GET /api/models/residency", access.ReadModels, a.Residents, web.Route{
		Summary: "Which models are in memory, asleep or being loaded, of those that are loaded for requests and put to sleep", Query: pageQuery{}, Reply: listOf[residentView]{},
	})
	t.unversioned("POST /api/config/instance/load/{serviceType}", access.WriteInstances, a.LoadModel, web.Route{
		Summary: "Load the model of an instance; answered when it is in memory. It is given up if nobody waits any more; no version", Body: residentRequest{}, Reply: residentView{},
		Errors: []int{http.StatusBadGateway, http.StatusGatewayTimeout},
	})
	t.unversioned("POST /api/config/instance/sleep/{serviceType}", access.WriteInstances, a.SleepModel, web.Route{
		Summary: "Put the model of an instance to sleep, or out of memory, unless it is in use or pinned; no version", Body: residentRequest{}, Reply: residentView{},
		Errors: []int{http.StatusBadGateway},
	})
	t.unversioned("POST /api/config/instance/circuit-breaker/{serviceType}", access.WriteInstances, a.ForceBreaker, web.Route{
		Summary: "Hold the circuit breaker of an instance open or closed, or let go of it; no version", Body: breakerRequest{}, Reply: heldBreaker{},
	})
}

func (t *routeTable) addProcesses() {
	a := t.api
	t.tag = "Processes"
	t.unversioned("GET /api/processes", access.ReadProcesses, a.Processes, web.Route{
		Summary: "The model servers that this gateway runs on its own host, from its configuration file", Query: pageQuery{}, Reply: listOf[processView]{},
	})
	t.unversioned("GET /api/processes/{name}", access.ReadProcesses, a.Process, web.Route{
		Summary: "One process, and for administrators the last lines that it wrote", Reply: processDetail{}, Errors: []int{http.StatusNotFound},
	})
	t.unversioned("POST /api/processes/{name}/start", access.ManageProcesses, a.StartProcess, web.Route{
		Summary: "Start a process, or try one again that has failed; the reply does not wait until it is ready", Reply: processView{}, Errors: []int{http.StatusNotFound, http.StatusServiceUnavailable},
	})
	t.unversioned("POST /api/processes/{name}/stop", access.ManageProcesses, a.StopProcess, web.Route{
		Summary: "Stop a process, also one that requests use; the next request starts it again", Reply: processView{}, Errors: []int{http.StatusNotFound, http.StatusServiceUnavailable},
	})
}

func (t *routeTable) addBatches() {
	a := t.api
	t.tag = "Batches"
	t.unversioned("GET /api/batches", access.ReadBatches, a.Batches, web.Route{
		Summary: "The newest thousand batches of all owners, or of one, with their progress", Query: batchesQuery{}, Reply: listOf[managedBatch]{},
		Errors: []int{http.StatusServiceUnavailable},
	})
	t.unversioned("POST /api/batches/{id}/cancel", access.WriteBatches, a.CancelBatch, web.Route{
		Summary: "Stop a batch; requests that run end, and what was done is kept", Reply: managedBatch{}, Errors: []int{http.StatusBadRequest, http.StatusNotFound, http.StatusServiceUnavailable},
	})
	t.unversioned("DELETE /api/batches/{id}", access.WriteBatches, a.DeleteBatch, web.Route{
		Summary: "Delete a batch with its results; one that has not ended ends, and what was done is lost", Reply: managedBatch{}, Errors: []int{http.StatusNotFound, http.StatusServiceUnavailable},
	})
	t.unversioned("DELETE /api/batches", access.WriteBatches, a.DeleteBatches, web.Route{
		Summary: "Delete all batches of an owner with their results; those that have not ended end", Query: ownedQuery{}, Reply: removedBatches{}, Errors: []int{http.StatusBadRequest, http.StatusServiceUnavailable},
	})
	t.unversioned("GET /api/files", access.ReadBatches, a.Files, web.Route{
		Summary: "The newest thousand files of all owners, or of one, without their contents", Query: filesQuery{}, Reply: listOf[managedFile]{},
		Errors: []int{http.StatusServiceUnavailable},
	})
	t.unversioned("DELETE /api/files/{id}", access.WriteBatches, a.DeleteFile, web.Route{
		Summary: "Delete a file, unless a batch that has not ended needs it", Reply: managedFile{}, Errors: []int{http.StatusBadRequest, http.StatusNotFound, http.StatusServiceUnavailable},
	})
	t.unversioned("DELETE /api/files", access.WriteBatches, a.DeleteFiles, web.Route{
		Summary: "Delete all files of an owner but those that a batch needs that has not ended", Query: ownedQuery{}, Reply: removedFiles{}, Errors: []int{http.StatusBadRequest, http.StatusServiceUnavailable},
	})
}

func (t *routeTable) addVersions() {
	a := t.api
	t.tag = "Versions"
	t.unversioned("GET /api/config/version", access.ReadVersions, a.Versions, web.Route{
		Summary: "The versions of the configuration", Query: versionsQuery{}, Reply: versionList{},
	})
	t.unversioned("GET /api/config/version/current", access.ReadVersions, a.CurrentVersion, web.Route{Summary: "The version in force", Reply: 0})
	t.unversioned("GET /api/config/version/next", access.ReadVersions, a.NextVersion, web.Route{Summary: "The number of the version that the next change makes", Reply: 0})
	t.unversioned("GET /api/config/version/diff", access.ReadVersions, a.DiffVersions, web.Route{
		Summary: "What changed between two versions", Query: diffQuery{}, Reply: versionDiff{}, Errors: []int{http.StatusNotFound},
	})
	t.unversioned("GET /api/config/version/{version}", access.ReadVersions, a.Version, web.Route{
		Summary: "One version; its services as a section of a configuration file where Accept names application/yaml", Reply: versionView{}, Media: map[string]any{mediaYAML: ""},
	})
	t.versioned("POST /api/config/version/rollback/{version}", access.WriteVersions, a.RollbackVersion, web.Route{Summary: "Roll back to a version"})
	t.versioned("POST /api/config/version/apply/{version}", access.WriteVersions, a.ApplyVersion, web.Route{Summary: "Apply a version"})
	t.versioned("DELETE /api/config/version/{version}", access.WriteVersions, a.DeleteVersion, web.Route{Summary: "Delete a version that is not in force"})
	t.unversioned("GET /api/config/backup", access.ReadVersions, a.DownloadBackup, web.Route{
		Summary: "All versions as an archive, one file each", Query: backupQuery{}, Media: map[string]any{mediaZIP: ""}, Audited: true,
	})
	t.unversioned("POST /api/config/merge/backup", access.WriteVersions, a.Backup, web.Route{
		Summary: "Copy all versions into a directory of their own", Reply: backup{},
	})
}

func (t *routeTable) addTerms() {
	a := t.api
	t.tag = "Terms of keys"
	t.unversioned("GET /api/config/terms", access.ReadTerms, a.Terms, web.Route{
		Summary: "The limits, budgets and scopes of tenants, and the defaults of all keys", Reply: termsView{},
	})
	t.versioned("PUT /api/config/terms", access.WriteTerms, a.PutTerms, web.Route{
		Summary: "Change the defaults, or the list of tenants; each is replaced where it is given. They are in force at once, on all gateways that share the configuration, in place of security.defaults and security.tenants of the configuration file", Body: termsBody{},
	})
	t.versioned("DELETE /api/config/terms", access.WriteTerms, a.DropTerms, web.Route{
		Summary: "Let the configuration file of each gateway decide again",
	})
	t.versioned("PUT /api/config/terms/tenants/{tenant}", access.WriteTerms, a.PutTenant, web.Route{
		Summary: "Change what is given of the terms of a tenant, which is added where it is not there", Body: termFields{},
	})
	t.versioned("DELETE /api/config/terms/tenants/{tenant}", access.WriteTerms, a.DeleteTenant, web.Route{
		Summary: "Remove the terms of a tenant; its keys keep theirs",
	})
}

func (t *routeTable) addQuota() {
	a := t.api
	t.tag = "Quota"
	t.handle = a.HandleQuota
	defer func() { t.handle = a.Handle }()
	t.unversioned("GET /api/config/quota", access.ReadQuota, a.QuotaConfig, web.Route{Summary: "The configuration of the quota ledger", Reply: quotaConfigView{}})
	t.unversioned("PUT /api/config/quota", access.WriteQuota, a.EditQuota, web.Route{
		Summary: "Change the quota ledger until the next restart or reload; other fields need a restart (400 RESTART_REQUIRED)",
		Body:    quotaRequest{}, Reply: quotaConfigView{},
	})
	t.unversioned("GET /api/monitoring/quota/status", access.ReadQuotaUsage, a.QuotaStatus, web.Route{Summary: "How the quota ledger is", Reply: quotaStatusView{}})
	t.unversioned("GET /api/monitoring/quota/usage", access.ReadQuotaUsage, a.QuotaUsage, web.Route{
		Summary: "Requests and tokens by window; of the open windows, or of those that began between from and to",
		Query:   usageQuery{}, Reply: listOf[quotaUsageView]{},
	})
	t.unversioned("GET /api/monitoring/spend", access.ReadQuotaUsage, a.Spend, web.Route{
		Summary: "What was spent in a period by tenant, key, user, model or service, beside the period before, with a forecast",
		Query:   spendQuery{}, Reply: spendView{},
	})
}

func (t *routeTable) addCredentials() {
	a := t.api
	t.tag = "Sessions"
	t.unversioned("GET /api/auth/me", access.ReadSelf, a.Self, web.Route{
		Summary: "Who sends this request, and what that role may do", Reply: selfView{},
	})
	t.unversioned("GET /api/auth/roles", access.ReadSelf, a.Roles, web.Route{
		Summary: "The roles of management tokens, and the permissions of each", Reply: []roleView{},
	})
	t.unversioned("POST /api/auth/session", access.UseSession, a.BeginSession, web.Route{
		Summary: "Exchange the management token of this request for a session, which a browser keeps in a cookie that scripts cannot read; where security is off, there are none (400)",
		Reply:   sessionView{}, Status: http.StatusCreated,
	})
	t.unversioned("DELETE /api/auth/session", access.UseSession, a.EndSession, web.Route{Summary: "Have the browser forget its session", Reply: sessionView{}})
	t.tag = "API keys"
	t.unversioned("GET /api/auth/keys", access.ManageKeys, a.Keys, web.Route{
		Summary: "The API keys, without the keys themselves", Query: pageQuery{}, Reply: listOf[keyView]{},
	})
	t.unversioned("POST /api/auth/keys", access.ManageKeys, a.IssueKey, web.Route{
		Summary: "Issue a key; it is shown this once", Body: keyRequest{}, Reply: keyView{}, Status: http.StatusCreated,
	})
	t.unversioned("PUT /api/auth/keys/{id}", access.ManageKeys, a.EditKey, web.Route{
		Summary: "Change what is given of a key that was issued: its tenant, scope, expiry and limits; at once", Body: keyTerms{}, Reply: keyView{},
	})
	t.unversioned("POST /api/auth/keys/{id}/rotate", access.ManageKeys, a.RotateKey, web.Route{
		Summary: "Give a key that was issued a new text, which is shown this once; the old one stays good for the overlap", Body: rotationRequest{}, Reply: keyView{},
	})
	t.unversioned("DELETE /api/auth/keys/{id}", access.ManageKeys, a.RevokeKey, web.Route{Summary: "Revoke a key at once", Reply: revokedKey{}})
	t.tag = "Management tokens"
	t.unversioned("GET /api/auth/tokens", access.ManageTokens, a.Tokens, web.Route{
		Summary: "The management tokens, without the tokens themselves", Query: pageQuery{}, Reply: listOf[tokenView]{},
	})
	t.unversioned("POST /api/auth/tokens", access.ManageTokens, a.IssueToken, web.Route{
		Summary: "Issue a token; it is shown this once; where security is off, none is issued (403)", Body: tokenRequest{}, Reply: tokenView{}, Status: http.StatusCreated,
	})
	t.unversioned("POST /api/auth/tokens/{name}/rotate", access.ManageTokens, a.RotateToken, web.Route{
		Summary: "Give a token that was issued a new text, which is shown this once; the old one is refused at once", Reply: tokenView{},
	})
	t.unversioned("DELETE /api/auth/tokens/{name}", access.ManageTokens, a.RevokeToken, web.Route{
		Summary: "Revoke a token at once, also one of the configuration file", Reply: revokedToken{},
	})
}
