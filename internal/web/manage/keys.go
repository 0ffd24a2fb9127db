package manage

import (
	"errors"
	"net/http"
	"time"

	"github.com/patchbay-ai/patchbay/internal/access"
	"github.com/patchbay-ai/patchbay/internal/config"
	"github.com/patchbay-ai/patchbay/internal/schema"
)

// keyView is an API key as JSON. The key itself is shown once, when it is issued; the
// gateway stores only a hash.
type keyView struct {
	ID        string               `json:"id"`
	Tenant    string               `json:"tenant"`
	Services  []schema.ServiceType `json:"services"`
	Models    []string             `json:"models"`
	ExpiresAt string               `json:"expiresAt" doc:"Empty for a key that does not expire."`
	Status    string               `json:"status" enum:"ACTIVE,EXPIRED,REVOKED,UNREADABLE"`
	// Source is where the key is kept.
	Source    string    `json:"source" enum:"config,issued"`
	CreatedAt time.Time `json:"createdAt,omitzero"`
	CreatedBy string    `json:"createdBy,omitzero"`
	RevokedAt time.Time `json:"revokedAt,omitzero"`
	Key       string    `json:"key,omitzero" doc:"Only in the reply that issues it."`
	DryRun    bool      `json:"dryRun,omitzero"`
}

// Keys answers GET /api/auth/keys.
func (a *API) Keys(q *Request) (Reply, error) {
	now := time.Now()
	views := []keyView{}
	for _, key := range a.options.Credentials.Keys() {
		views = append(views, viewKey(key, now))
	}
	data, err := list(q, views)
	return Reply{message: "The API keys.", data: data}, err
}

func viewKey(key access.Issued, now time.Time) keyView {
	return keyView{
		ID: key.ID, Tenant: key.Tenant, Services: key.Services, Models: key.Models, ExpiresAt: key.ExpiresAt,
		Status: key.Status(now), Source: key.Source, CreatedAt: key.CreatedAt, CreatedBy: key.CreatedBy, RevokedAt: key.RevokedAt,
	}
}

// keyRequest is the body of a request to issue a key.
type keyRequest struct {
	ID        string               `json:"id" pattern:"^[A-Za-z0-9_.:-]*$" maxLength:"128" doc:"One is made where it is left out."`
	Tenant    string               `json:"tenant" maxLength:"128" doc:"At most 128 bytes."`
	Services  []schema.ServiceType `json:"services" uniqueItems:"true" doc:"What the key is good for; all of them where none is given."`
	Models    []string             `json:"models" minLength:"1" doc:"What the key is good for; all of them where none is given."`
	ExpiresAt string               `json:"expiresAt" format:"date-time" pattern:"^(202[6-9]|20[3-9][0-9]|2[1-9][0-9]{2}|[3-9][0-9]{3})-" empty:"true" doc:"In the future; a key without it does not expire."`
}

// IssueKey answers POST /api/auth/keys.
func (a *API) IssueKey(q *Request) (Reply, error) {
	now, dryRun := time.Now(), q.change.DryRun
	wanted, err := readKey(q.body, now)
	if err != nil {
		return Reply{}, err
	}
	text, issued, err := a.options.Credentials.IssueKey(q.Context(), wanted, q.change.Author, now, dryRun)
	if err != nil {
		return Reply{}, err
	}
	view := viewKey(issued, now)
	view.Key, view.DryRun = text, dryRun
	answer := Reply{status: http.StatusCreated, message: "The key was issued. It is shown this once only.", data: view, change: "key " + issued.ID + " issued"}
	switch {
	case dryRun:
		answer.status, answer.message = http.StatusOK, "Dry run: this key would be issued."
	case !a.options.Credentials.Enforced():
		answer.message += " Keys are not asked for while security.enabled is false."
	}
	return answer, nil
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
func (a *API) RevokeKey(q *Request) (Reply, error) {
	id, dryRun := q.PathValue("id"), q.change.DryRun
	err := a.options.Credentials.RevokeKey(q.Context(), id, q.change.Author, time.Now(), dryRun)
	already := errors.Is(err, access.ErrRevoked)
	if err != nil && !already {
		return Reply{}, err
	}
	message := "The key was revoked; it is refused from now on."
	switch {
	case already:
		message = "The key was revoked before."
	case dryRun:
		message = "Dry run: this key would be revoked."
	}
	return Reply{message: message, change: "key " + id + " revoked", data: revokedKey{id, !already, dryRun}}, nil
}

// revokedKey is the data of the reply to a revocation.
type revokedKey struct {
	ID      string `json:"id"`
	Changed bool   `json:"changed"`
	DryRun  bool   `json:"dryRun,omitzero"`
}
