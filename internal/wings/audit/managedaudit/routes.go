package managedaudit

import (
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/patchbay-ai/patchbay/internal/access"
	"github.com/patchbay-ai/patchbay/internal/plain/say"
	"github.com/patchbay-ai/patchbay/internal/serve/web"
	"github.com/patchbay-ai/patchbay/internal/wings/audit"
)

const mediaJSONLines = "application/x-ndjson"

func (o *office) routes() []web.Route {
	return web.Group("Audit", manageAudit, manageAudit, web.OfGateway, []web.Route{
		{
			Pattern: "GET /api/audit", Team: access.TeamAdmin,
			Does: web.DoWith(o.list),
			Summary: "Who did what, when, from where and with which result, the newest first; with format=jsonl all " +
				"records as JSON lines, the oldest first",
			Says: "The records, the newest first.", Reply: web.ListOf[audit.Record]{},
			Media: map[string]any{mediaJSONLines: ""}, Errors: []int{503},
		},
		{
			Pattern: "GET /api/audit/heads", Does: web.List(o.heads),
			Summary: "The signed heads of the chains of records, the newest first",
			Says:    "The heads, the newest first.", Errors: []int{503},
		},
		{
			Pattern: "GET /api/audit/keys", Does: web.Do(o.keys),
			Summary: "The public keys that verify the heads, those of the past included", Says: "The public keys.",
			Errors: []int{503},
		},
		{
			Pattern: "POST /api/audit/rotate-key", Does: web.Do(o.rotate),
			Summary: "Let another key sign the heads of this gateway", Says: "Another key signs the heads.",
			NoDryRun: true, Errors: []int{503},
		},
	})
}

// listQuery says which records are wanted.
type listQuery struct {
	From time.Time `json:"from" empty:"true" doc:"Records since this time."`
	To   time.Time `json:"to" empty:"true" doc:"Records before this time."`
	Who  string    `json:"who" doc:"A part of the name, in any case."`
	What string    `json:"what" doc:"A part of action, object or result, in any case."`
	Form string    `json:"format" enum:"json,jsonl" doc:"With jsonl everything is sent, as lines for a verifier."`
	web.PageQuery
}

// mostListed is how many records are listed without a page.
const mostListed = 1000

// list answers GET /api/audit.
func (o *office) list(c *web.Call, q *listQuery) (any, error) {
	query := audit.Query{Who: q.Who, What: q.What, Limit: mostListed, Tenants: tenantsOf(c)}
	if !q.From.IsZero() {
		query.From = audit.Stamp(q.From)
	}
	if !q.To.IsZero() {
		query.To = audit.Stamp(q.To)
	}
	switch strings.ToLower(q.Form) {
	case "", "json":
	case "jsonl":
		if query.Tenants != nil {
			return nil, web.BadInput("format", "audit.whole")
		}
		c.Instead = func(w http.ResponseWriter) { o.export(w, c.Request) }
		return nil, nil
	default:
		return nil, web.BadInput("format", "audit.format")
	}
	page := q.Page()
	if page != nil {
		query.Skip, query.Limit = (page.Number-1)*page.Size, page.Size
	}
	query.Counts = page != nil
	select {
	case o.readers <- struct{}{}:
		defer func() { <-o.readers }()
	case <-c.Context().Done():
		return nil, away(c.Context().Err())
	}
	o.chain.Fold(c.Context(), c.Scope.All)
	found, total, err := o.store.Search(c.Context(), query)
	if err != nil {
		return nil, away(err)
	}
	found = web.NotNil(found)
	if page == nil {
		return found, nil
	}
	page.TotalElements, page.TotalPages = total, (total+page.Size-1)/page.Size
	return web.PageView[audit.Record]{Content: found, Page: *page}, nil
}

// tenantsOf returns the tenants whose records a caller may see, nil for all.
func tenantsOf(c *web.Call) []string {
	if c.Scope.All {
		return nil
	}
	return web.NotNil(c.Scope.Tenants)
}

// away is the error of a store that does not answer.
func away(err error) error {
	return errors.Join(web.Away(say.New("audit.away")), err)
}

// export writes all records as JSON lines.
func (o *office) export(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", mediaJSONLines)
	w.Header().Set("Content-Disposition", `attachment; filename="audit.jsonl"`)
	w.WriteHeader(http.StatusOK)
	err := o.store.Each(r.Context(), func(_ int, line []byte) error {
		_, err := w.Write(append(line, '\n'))
		return err
	})
	if err != nil {
		panic(http.ErrAbortHandler) // the reply must not look complete
	}
}

// mostHeads is how many heads are listed.
const mostHeads = 10_000

func (o *office) heads(c *web.Call) ([]audit.Head, error) {
	heads, err := o.store.Heads(c.Context(), mostHeads)
	if err != nil {
		return nil, away(err)
	}
	return heads, nil
}

func (o *office) keys(c *web.Call) ([]audit.PublicKey, error) {
	keys, err := o.store.Keys(c.Context())
	if err != nil {
		return nil, away(err)
	}
	return web.NotNil(keys), nil
}

func (o *office) rotate(c *web.Call) (audit.PublicKey, error) {
	key, err := o.chain.Rotate(c.Context())
	if err != nil {
		return key, away(err)
	}
	c.Done("the key %s signs the heads", key.ID)
	return key, nil
}
