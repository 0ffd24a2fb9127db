package manage

import (
	"errors"
	"net/http"
	"time"

	"github.com/patchbay-ai/patchbay/internal/access"
	"github.com/patchbay-ai/patchbay/internal/config"
	"github.com/patchbay-ai/patchbay/internal/schema"
	"github.com/patchbay-ai/patchbay/internal/web"
)

// keyView is how an API key is read. The key itself is shown once, when it is
// issued; it is stored nowhere.
type keyView struct {
	ID        string               `json:"id"`
	Tenant    string               `json:"tenant"`
	Services  []schema.ServiceType `json:"services"`
	Models    []string             `json:"models"`
	ExpiresAt string               `json:"expiresAt"`
	// Status is ACTIVE, EXPIRED or REVOKED.
	Status string `json:"status"`
	// Source is where the key is kept: "config" or "issued".
	Source    string    `json:"source"`
	CreatedAt time.Time `json:"createdAt,omitzero"`
	CreatedBy string    `json:"createdBy,omitzero"`
	RevokedAt time.Time `json:"revokedAt,omitzero"`
	Key       string    `json:"key,omitzero"`
	DryRun    bool      `json:"dryRun,omitzero"`
}

// Keys answers GET /api/auth/keys.
func (a *API) Keys(w http.ResponseWriter, r *http.Request) {
	now := time.Now()
	views := []keyView{}
	for _, key := range a.options.Keys.Static() {
		view := viewKey(access.Issued{Key: key}, now)
		view.Source = "config"
		views = append(views, view)
	}
	for _, key := range a.options.Keys.Issued() {
		views = append(views, viewKey(key, now))
	}
	data, err := list(r, views)
	if err != nil {
		a.fail(w, err)
		return
	}
	web.Succeed(w, http.StatusOK, "The API keys.", data)
}

func viewKey(key access.Issued, now time.Time) keyView {
	return keyView{
		ID: key.ID, Tenant: key.Tenant, Services: key.Services, Models: key.Models, ExpiresAt: key.ExpiresAt,
		Status: key.Status(now), Source: "issued", CreatedAt: key.CreatedAt, CreatedBy: key.CreatedBy, RevokedAt: key.RevokedAt,
	}
}

// keyRequest is the body with which a key is asked for.
type keyRequest struct {
	ID        string               `json:"id"`
	Tenant    string               `json:"tenant"`
	Services  []schema.ServiceType `json:"services"`
	Models    []string             `json:"models"`
	ExpiresAt string               `json:"expiresAt"`
}

// IssueKey answers POST /api/auth/keys.
func (a *API) IssueKey(w http.ResponseWriter, r *http.Request) {
	change, err := changeOf(r)
	if err != nil {
		a.fail(w, err)
		return
	}
	body, err := readBody(w, r)
	if err != nil {
		a.fail(w, err)
		return
	}
	now := time.Now()
	wanted, err := readKey(body, now)
	if err != nil {
		a.fail(w, err)
		return
	}
	text, issued, err := a.options.Keys.Issue(wanted, change.Author, now, change.DryRun)
	if err != nil {
		a.fail(w, err)
		return
	}
	record := web.RecordOf(w)
	record.Change, record.DryRun = "key "+issued.ID+" issued", change.DryRun
	view := viewKey(issued, now)
	view.Key, view.DryRun = text, change.DryRun
	if change.DryRun {
		web.Succeed(w, http.StatusOK, "Dry run: this key would be issued.", view)
		return
	}
	message := "The key was issued. It is shown this once only."
	if !a.options.Keys.Enforced() {
		message += " Keys are not asked for while security.enabled is false."
	}
	web.Succeed(w, http.StatusCreated, message, view)
}

func readKey(body []byte, now time.Time) (access.Key, error) {
	var wanted keyRequest
	if _, err := config.DecodeJSON(body, &wanted); err != nil {
		return access.Key{}, err
	}
	key := access.Key{ID: wanted.ID, Tenant: wanted.Tenant, Services: wanted.Services, Models: wanted.Models, ExpiresAt: wanted.ExpiresAt}
	var problems config.Problems
	key.Check(func(path, message string) {
		problems = append(problems, config.Problem{Path: path, Message: message})
	})
	if expires, err := time.Parse(time.RFC3339, key.ExpiresAt); err == nil && now.After(expires) {
		problems = append(problems, config.Problem{Path: "expiresAt", Message: "is in the past"})
	}
	if len(problems) > 0 {
		return key, problems
	}
	return key, nil
}

// RevokeKey answers DELETE /api/auth/keys/{id}.
func (a *API) RevokeKey(w http.ResponseWriter, r *http.Request) {
	change, err := changeOf(r)
	if err != nil {
		a.fail(w, err)
		return
	}
	id := r.PathValue("id")
	err = a.options.Keys.Revoke(id, time.Now(), change.DryRun)
	already := errors.Is(err, access.ErrKeyRevoked)
	if err != nil && !already {
		a.fail(w, err)
		return
	}
	record := web.RecordOf(w)
	record.Change, record.DryRun = "key "+id+" revoked", change.DryRun
	message := "The key was revoked; it is refused from now on."
	switch {
	case already:
		message = "The key was revoked before."
	case change.DryRun:
		message = "Dry run: this key would be revoked."
	}
	web.Succeed(w, http.StatusOK, message, struct {
		ID      string `json:"id"`
		Changed bool   `json:"changed"`
		DryRun  bool   `json:"dryRun,omitzero"`
	}{id, !already, change.DryRun})
}
