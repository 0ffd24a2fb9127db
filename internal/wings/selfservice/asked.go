package selfservice

import (
	"github.com/patchbay-ai/patchbay/internal/access"
	"github.com/patchbay-ai/patchbay/internal/count/allowance"
	"github.com/patchbay-ai/patchbay/internal/count/budget"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
)

// AskedTerms are the terms for which people ask when they make keys for themselves or their team.
type AskedTerms struct {
	ExpiresAt string `json:"expiresAt" format:"date-time" pattern:"^(202[6-9]|20[3-9]|2[1-9]|[3-9])" empty:"true"`

	Services []schema.ServiceType `json:"services" uniqueItems:"true"`
	Models   []string             `json:"models" minLength:"1"`
	Limits   allowance.Limits     `json:"limits"`
	Budgets  budget.Budgets       `json:"budgets"`
}

// Docs says more about some members than a tag has room for.
func (AskedTerms) Docs() map[string]string {
	return map[string]string{
		"expiresAt": "In the future; the latest time that the terms allow if left out.",
		"services":  "Which the key is good for; all that the terms allow if none.",
		"models":    "The same; a * stands for any text.",
		"limits":    "Those of the terms where they are left out.",
	}
}

// AskedOf returns those of terms.
func AskedOf(t access.Terms) AskedTerms {
	return AskedTerms{t.ExpiresAt, t.Services, t.Models, t.Limits, t.Budgets}
}

// Over returns terms with what a person asks for.
func (w *AskedTerms) Over(t access.Terms) access.Terms {
	t.ExpiresAt, t.Services, t.Models, t.Limits, t.Budgets = w.ExpiresAt, w.Services, w.Models, w.Limits, w.Budgets
	return t
}
