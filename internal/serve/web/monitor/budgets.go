package monitor

import (
	"time"

	"github.com/patchbay-ai/patchbay/internal/count/budget"
	"github.com/patchbay-ai/patchbay/internal/request/prices"
	"github.com/patchbay-ai/patchbay/internal/serve/web"
)

// BudgetUses are the budgets of keys and tenants.
type BudgetUses struct {
	Currency string      `json:"currency" doc:"In which costs are."`
	Budgets  []budgetUse `json:"budgets"`
}

type budgetUse struct {
	Of     string `json:"of" doc:"Whose budget it is: key/ID or tenant/NAME."`
	Window string `json:"window" enum:"DAY,MONTH,TOTAL"`
	Unit   string `json:"unit" enum:"requests,tokens,cost"`
	Limit  int64  `json:"limit" doc:"Of a cost in millionths of the currency's unit."`
	Used   int64  `json:"used" doc:"What was spent."`
	// Reserved is beside Used, and the sum of both may be more than the limit.
	Reserved int64 `json:"reserved" doc:"What running and waiting requests may yet spend; some are refused."`
	// Reset is the time when the budget begins anew.
	Reset *time.Time `json:"reset" doc:"When the budget begins anew; null for one of all time."`
}

// budgetUse answers GET /api/monitoring/budgets.
func (a *API) budgetUse(*web.Call) (BudgetUses, error) {
	return ViewBudgets(a.Budgets(), a.Currency(), func(string) bool { return true }), nil
}

// ViewBudgets shows the budgets of the accounts that a caller may see.
func ViewBudgets(uses []budget.Use, currency string, isSeen func(account string) bool) BudgetUses {
	views := BudgetUses{Currency: currency, Budgets: []budgetUse{}}
	for _, use := range uses {
		if !isSeen(use.Account) {
			continue
		}
		view := budgetUse{Of: use.Account, Window: use.WindowName(), Unit: use.UnitName(), Limit: use.Limit,
			Used: use.Used, Reserved: use.Reserved}
		if use.Unit == budget.Cost {
			view.Limit, view.Used, view.Reserved = prices.Amount(use.Limit).Micros(), prices.Amount(use.Used).Micros(),
				prices.Amount(use.Reserved).Micros()
		}
		if !use.Reset.IsZero() {
			reset := use.Reset.UTC()
			view.Reset = &reset
		}
		views.Budgets = append(views.Budgets, view)
	}
	return views
}
