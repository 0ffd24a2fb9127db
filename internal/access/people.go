package access

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/patchbay-ai/patchbay/internal/count/budget"
	"github.com/patchbay-ai/patchbay/internal/plain/say"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
)

// Owner is the person who made a key.
type Owner struct {
	Issuer  string `json:"issuer"`
	Subject string `json:"subject"`
	Name    string `json:"name,omitzero"`
}

// IsSet reports whether there is an owner.
func (o Owner) IsSet() bool { return o.Subject != "" }

// String returns the name, subject and issuer of the owner, as the audit has them.
func (o Owner) String() string {
	if !o.IsSet() {
		return ""
	}
	return fmt.Sprintf("%s <%s at %s>", o.Name, o.Subject, o.Issuer)
}

// ID names the owner in ids of keys and in paths. It does not reveal the subject.
func (o Owner) ID() string {
	sum := sha256.Sum256([]byte(o.Issuer + "\x00" + o.Subject))
	return hex.EncodeToString(sum[:8])
}

// Owner returns the caller as the owner of keys.
func (i *Identity) Owner() Owner { return Owner{i.Issuer, i.Subject, i.Name} }

// People decides when the keys of people sleep.
type People struct {
	// Absence is how long keys stay good after the last sign-in of their owner.
	Absence time.Duration
	// Seen returns the last sign-in of a person, zero where it is not known, and whether that
	// person did not belong to a tenant any more then.
	Seen func(who Owner, tenant string) (last time.Time, hasLeft bool)
}

// SetPeople makes the keys of people sleep. Without it they never do. It must be called before
// requests are served.
func (c *Credentials) SetPeople(p People) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.people = &p
	c.rebuild()
}

// asleep returns the time since when a key sleeps, because its owner has left the tenant or
// stays away, and the sentence that says so; the zero time means that it does not.
func (p *People) asleep(owner Owner, tenant string, created, now time.Time) (since time.Time, why say.Code) {
	if p == nil || !owner.IsSet() {
		return time.Time{}, ""
	}
	last, hasLeft := p.Seen(owner, tenant)
	if last.Before(created) {
		last = created
	} else if hasLeft {
		return last, "call.key_left"
	}
	if since = last.Add(p.Absence); now.Before(since) {
		return time.Time{}, ""
	}
	return since, "call.key_sleeps"
}

// refuseAsleep returns an error for a key that sleeps.
func (g *Grant) refuseAsleep(now time.Time) *schema.Error {
	since, why := g.people.asleep(g.owner, g.Tenant, g.Since, now)
	if since.IsZero() {
		return nil
	}
	return schema.CodedError(schema.CodeInvalidAPIKey, why, "since", since.UTC().Format(time.DateOnly))
}

// TenantOf returns the tenant of a key, empty if it has none or is unknown.
func (c *Credentials) TenantOf(id string) string {
	for _, key := range c.Keys.List() {
		if key.ID == id {
			return key.Tenant
		}
	}
	return ""
}

// KeyStatus is ACTIVE, EXPIRED, DISABLED, REVOKED, UNREADABLE or, for a key of a person who stays away or
// has left the tenant, SLEEPING.
func (c *Credentials) KeyStatus(key IssuedKey, now time.Time) string {
	status := key.Status(now)
	if since, _ := c.people.asleep(key.Owner, key.Tenant, key.CreatedAt, now); status == "ACTIVE" && !since.IsZero() {
		return "SLEEPING"
	}
	return status
}

// teamKind begins the names of the stored teams.
const teamKind = "team/"

// Team holds the budgets that the administrators of a team set for their tenant. They hold
// beside those of the tenant's terms.
type Team struct {
	Tenant  string         `json:"tenant"`
	Budgets budget.Budgets `json:"budgets,omitzero"`
}

// setTeam takes a stored team.
func (c *Credentials) setTeam(name string, value []byte) error {
	var team Team
	if err := json.Unmarshal(value, &team, json.RejectUnknownMembers(true)); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	c.teams[strings.TrimPrefix(name, teamKind)] = team
	return nil
}

// Team returns the budgets that the administrators of a team set.
func (c *Credentials) Team(tenant string) Team {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.teams[tenant]
}

// SetTeam stores the budgets that the administrators of a team set. They are in force at once.
func (c *Credentials) SetTeam(ctx context.Context, team Team, change Change) error {
	if change.DryRun {
		return nil
	}
	return c.change(ctx, func() (string, any, error) { return teamKind + team.Tenant, team, nil })
}
