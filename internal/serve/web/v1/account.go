package v1

import (
	"context"
	"sync"

	"github.com/patchbay-ai/patchbay/internal/plain/say"
	"github.com/patchbay-ai/patchbay/internal/request/recall"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
)

// ownAccount decides which ids of a backend's account a caller with a key may name: the ids
// that answers gave to the same key.
type ownAccount struct {
	api   *API
	ctx   context.Context //nolint:containedctx // it lives as long as the request
	owner recall.Owner

	mu    sync.Mutex
	given map[string]bool // by looked-up id: whether it was given to this key
}

// mostNamed is the greatest number of ids of an account that a request may name.
const mostNamed = 1000

// RefuseForeign returns an error if one of the ids was never given to the caller.
func (o *ownAccount) RefuseForeign(named []schema.NamedID) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	var unknown []string
	for _, one := range named {
		if _, known := o.given[one.ID]; !known {
			unknown = append(unknown, one.ID)
		}
	}
	if len(unknown) > mostNamed {
		return schema.InvalidValue(named[0].Param, say.New("account.many"))
	}
	if err := o.find(unknown); err != nil {
		return err
	}
	for _, one := range named {
		if !o.given[one.ID] {
			return schema.InvalidValue(one.Param, say.New("account.foreign", "field", one.Param, "id", shorten(one.ID)))
		}
	}
	return nil
}

// find asks the store for ids.
func (o *ownAccount) find(ids []string) error {
	if len(ids) == 0 || o.api.answers == nil {
		return nil
	}
	found, err := o.api.answers.Given(o.ctx, o.owner, ids...)
	if err != nil {
		if o.ctx.Err() != nil {
			return context.Cause(o.ctx)
		}
		return storeUnavailable()
	}
	if o.given == nil {
		o.given = map[string]bool{}
	}
	for i, id := range ids {
		o.given[id] = found[i]
	}
	return nil
}

// give notes ids that an answer gives to the caller. The client gets the answer in any case.
func (o *ownAccount) give(ids []string) {
	o.api.warnUnkept(o.ctx, o.api.answers.Give(o.ctx, o.owner, ids[:min(len(ids), mostNamed)]...))
}

// guardAccount keeps a caller with a key from naming objects that others have at a backend,
// and notes the ids in the caller's own answers.
func (a *API) guardAccount(x *exchange) {
	x.account.api, x.account.ctx, x.account.owner = a, x.r.Context(), ownerOf(x.caller.Grant)
	x.request.Account = &x.account
	if door := x.door.id; a.answers != nil && (door == schema.DoorResponses || door == schema.DoorCompact ||
		door == schema.DoorMessages) {
		x.request.Gave = x.account.give
	}
}
