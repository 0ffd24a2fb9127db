package spend

import (
	"cmp"
	"time"

	"github.com/patchbay-ai/patchbay/internal/access"
	"github.com/patchbay-ai/patchbay/internal/count/quota"
	"github.com/patchbay-ai/patchbay/internal/plain/say"
	"github.com/patchbay-ai/patchbay/internal/request/prices"
	"github.com/patchbay-ai/patchbay/internal/serve/web"
	"github.com/patchbay-ai/patchbay/internal/serve/web/manage"
	"github.com/patchbay-ai/patchbay/internal/serve/wing"
)

// office answers questions about the ledger of a gateway.
type office struct {
	core   *wing.Core
	reader *Reader
}

// NewWing returns the wing of spending.
func NewWing(core *wing.Core) *wing.Wing {
	o := &office{core: core}
	return &wing.Wing{Routes: o.routes, Open: func() error {
		o.reader = New(core.Ledger, core.Budgets)
		return nil
	}}
}

func (o *office) routes() []web.Route {
	return []web.Route{{
		Pattern: "GET /api/monitoring/spend", Tag: manage.QuotaTag, Permission: access.ReadQuotaUsage,
		Does: web.DoWith(o.spending),
		Summary: "What was spent in a period by tenant, key, user, model or service, beside the period before, with " +
			"a forecast",
	}, {
		Pattern: "GET /api/me/usage", Tag: manage.QuotaTag, Permission: access.ByMembership, Team: access.Member,
		Does:    web.DoWith(o.ownSpending),
		Summary: "What you used and spent with your keys in a period",
	}, {
		Pattern: "GET /api/team/{tenant}/usage", Tag: manage.QuotaTag, Permission: access.ReadQuotaUsage,
		Team: access.TeamAdmin, Does: web.DoWith(o.teamSpending),
		Summary: "What a team used and spent in a period",
	}}
}

// defaultSpendGroups is how many groups a reply lists if the request gives no number.
const defaultSpendGroups = 100

// spendQuery has the period and the filters of a question about spending.
type spendQuery struct {
	manage.UsageFilter
	By    Dimension `json:"by" empty:"true" doc:"What is listed; tenants where it is not given."`
	From  time.Time `json:"from" empty:"true"`
	To    time.Time `json:"to" empty:"true"`
	Limit int       `json:"limit" minimum:"1" maximum:"1000" empty:"true"`
}

// Docs says more about some members than a tag has room for.
func (spendQuery) Docs() map[string]string {
	return map[string]string{
		"from":  "Where the period begins; the beginning of this month where it is not given.",
		"to":    "Where the period ends; the end of this month where from is not given, else now.",
		"limit": "How many are listed [100]; the others are added up.",
	}
}

// spendView is the spending of a period as JSON.
type spendView struct {
	Enabled  bool         `json:"enabled" doc:"Whether the quota ledger is on, which counts it."`
	Priced   bool         `json:"priced" doc:"Whether any model has a price."`
	Currency string       `json:"currency"`
	By       Dimension    `json:"by"`
	Step     quota.Window `json:"step" doc:"The windows of which the period is made."`
	From     time.Time    `json:"from" doc:"Where the first step begins."`
	To       time.Time    `json:"to" doc:"Where the last step ends."`
	Starts   []time.Time  `json:"starts" doc:"Where the steps begin."`
	Complete bool         `json:"complete" doc:"False if a store did not answer, or has more than is read."`
	// BeforeFrom is null where there is nothing to compare with.
	BeforeFrom *time.Time   `json:"beforeFrom" doc:"Where the period before begins, up to from; null if unknown."`
	Total      spendGroup   `json:"total"`
	Groups     []spendGroup `json:"groups" doc:"The most expensive first."`
	Others     *spendGroup  `json:"others" doc:"The sum of the groups that are not listed; null if all are."`
	Unpriced   []string     `json:"unpriced" doc:"Models that were used in the period and have no price, at most 100."`
}

type spendGroup struct {
	Name             string  `json:"name" doc:"Empty for requests without one."`
	Count            int     `json:"count,omitzero" doc:"How many groups are added up."`
	Cost             int64   `json:"cost" doc:"In millionths of the currency's unit, at the prices of each time."`
	Costs            []int64 `json:"costs" doc:"Of each step."`
	Before           *int64  `json:"before" doc:"The cost in the period before."`
	Forecast         *int64  `json:"forecast"`
	ForecastLow      *int64  `json:"forecastLow" doc:"Four of five such periods end between this and forecastHigh."`
	ForecastHigh     *int64  `json:"forecastHigh"`
	Pace             *int64  `json:"pace" doc:"The cost of a day at that pace without budgets; null as forecast."`
	RequestCount     int64   `json:"requestCount"`
	Unpriced         int64   `json:"unpriced" doc:"Requests that cost nothing, for lack of a price of the model."`
	TokenCount       int64   `json:"tokenCount"`
	PromptTokens     int64   `json:"promptTokens"`
	CompletionTokens int64   `json:"completionTokens"`
}

// Docs says more about some members than a tag has room for.
func (spendGroup) Docs() map[string]string {
	return map[string]string{
		"forecast": "The cost at the end of the period, at the pace of the last 7 days, of a day at that of " +
			"the last 24 hours, as far as budgets of money let keys and tenants go on; null of one that is " +
			"past, and until the ledger has counted for a day.",
	}
}

func (o *office) spending(c *web.Call, q *spendQuery) (spendView, error) { return o.answer(c, q, nil) }

// ownSpending counts the requests with the keys that the caller made.
func (o *office) ownSpending(c *web.Call, q *spendQuery) (spendView, error) {
	own, me := map[string]bool{}, c.Who.Owner().ID()
	for _, key := range o.core.Credentials.Keys.List() {
		own[key.ID] = key.Owner.IsSet() && key.Owner.ID() == me
	}
	return o.answer(c, q, func(k *quota.Key) bool { return own[k.APIKey] })
}

// teamSpending counts the requests of the tenant in the path.
func (o *office) teamSpending(c *web.Call, q *spendQuery) (spendView, error) {
	tenant := c.PathValue("tenant")
	return o.answer(c, q, func(k *quota.Key) bool { return k.Tenant == tenant })
}

func (o *office) answer(c *web.Call, q *spendQuery, belongs func(*quota.Key) bool) (spendView, error) {
	now := time.Now()
	question, err := q.question(now)
	if err != nil {
		return spendView{}, err
	}
	question.Belongs = belongs
	doc, _ := o.core.Control.Document()
	list := prices.Compile(doc.Prices)
	question.IsPriced = func(model string) bool { return list.Of(model) != nil }
	report, err := o.reader.Read(c.Context(), question, now)
	view := spendView{
		Enabled: report.Enabled, Priced: len(doc.Prices.Models) > 0, Currency: doc.Prices.Currency, By: question.By,
		Step: report.Step,
		From: report.From, To: report.To, Starts: report.Starts, Complete: err == nil,
		Total: viewSpend(&report.Total, &report), Groups: []spendGroup{},
		Unpriced: append([]string{}, report.Unpriced...),
	}
	if report.HasBefore {
		view.BeforeFrom = &report.BeforeFrom
	}
	for i := range report.Groups {
		view.Groups = append(view.Groups, viewSpend(&report.Groups[i], &report))
	}
	if report.Others > 0 {
		others := viewSpend(&report.Rest, &report)
		others.Count = report.Others
		view.Others = &others
	}
	c.Message = manage.UsageMessage(report.Enabled, err)
	if !report.Enabled {
		c.Say("The quota ledger is off, so nothing is counted.")
	}
	return view, nil
}

func viewSpend(g *Group, report *Report) spendGroup {
	view := spendGroup{
		Name: g.Name, Cost: prices.Amount(g.Cost).Micros(), Costs: make([]int64, len(g.Costs)),
		RequestCount: g.Requests, Unpriced: g.Unpriced, TokenCount: g.Tokens, PromptTokens: g.Prompt,
		CompletionTokens: g.Completion,
	}
	for i, cost := range g.Costs {
		view.Costs[i] = prices.Amount(cost).Micros()
	}
	if report.HasBefore {
		view.Before = new(prices.Amount(g.Before).Micros())
	}
	if report.HasForecast {
		view.Forecast, view.Pace = new(prices.Amount(g.Forecast).Micros()), new(prices.Amount(g.Pace).Micros())
		view.ForecastLow, view.ForecastHigh = new(prices.Amount(g.Low).Micros()), new(prices.Amount(g.High).Micros())
	}
	return view
}

// question returns the question of the query, about this month where no period is given.
func (q *spendQuery) question(now time.Time) (Question, error) {
	asked := Question{
		Only: q.UsageFilter.Question(), By: q.By, From: q.From.UTC(), To: q.To.UTC(),
		Limit: cmp.Or(q.Limit, defaultSpendGroups),
	}
	switch {
	case q.From.IsZero() && !q.To.IsZero():
		return asked, web.BadInput("from", "field.from_required")
	case q.From.IsZero():
		asked.From = quota.Month.Start(now)
		asked.To = quota.Month.End(asked.From)
	case q.To.IsZero():
		asked.To = now.UTC()
	}
	if err := asked.Check(); err != nil {
		return asked, web.Invalid("to", say.From(err))
	}
	return asked, nil
}
