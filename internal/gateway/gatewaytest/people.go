package gatewaytest

import (
	"crypto/rand"
	"time"

	"github.com/patchbay-ai/patchbay/internal/access"
	"github.com/patchbay-ai/patchbay/internal/access/sessions"
	"github.com/patchbay-ai/patchbay/internal/serve/web"
	"github.com/patchbay-ai/patchbay/internal/serve/wing"
)

// Issuer is the provider where the people of tests have signed in.
const Issuer = "https://login.example"

// Person returns somebody who has roles in tenants: pairs of a tenant and a role.
func Person(name string, places ...any) access.Identity {
	who := access.Identity{Name: name, Issuer: Issuer, Subject: "subject-of-" + name, Session: "session-of-" + name}
	for i := 0; i < len(places); i += 2 {
		tenant, _ := places[i].(string)
		role, _ := places[i+1].(access.TeamRole)
		who.Memberships = append(who.Memberships, access.Membership{Tenant: tenant, Role: role})
	}
	return who
}

// People is a wing in which everybody has a session, by the name of the person.
func People(people ...access.Identity) wing.New {
	return func(*wing.Core) *wing.Wing {
		return &wing.Wing{Session: func(text string, _ time.Time) (who access.Identity, known bool, err error) {
			for _, who := range people {
				if who.Name == text {
					return who, true, nil
				}
			}
			return who, false, nil
		}}
	}
}

// As returns the header of a request with the session of a person.
func As(name string) (header, value string) { return "Cookie", web.SessionCookie + "=" + name }

// SignIn notes that a person has signed in.
func (r *Gateway) SignIn(who access.Identity) {
	r.T.Helper()
	session := sessions.Session{ID: rand.Text(), Name: who.Name, Issuer: who.Issuer, Subject: who.Subject,
		Since: time.Now(), Until: time.Now().Add(time.Hour), Places: []sessions.Place{}}
	for _, m := range who.Memberships {
		session.Places = append(session.Places, sessions.Place{Tenant: m.Tenant, Role: m.Role.String()})
	}
	if err := r.Sessions.Begin(Deadline(r.T), session); err != nil {
		r.T.Fatal(err)
	}
}
