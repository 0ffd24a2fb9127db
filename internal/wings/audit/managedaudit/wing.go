// Package managedaudit is the wing of the audit: it records the operations of management and
// sign-ins, and has the operations to read and verify the records.
package managedaudit

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"time"

	"github.com/patchbay-ai/patchbay/internal/config"
	"github.com/patchbay-ai/patchbay/internal/request/outgoing"
	"github.com/patchbay-ai/patchbay/internal/see/logs"
	"github.com/patchbay-ai/patchbay/internal/serve/web"
	"github.com/patchbay-ai/patchbay/internal/serve/web/actuator"
	"github.com/patchbay-ai/patchbay/internal/serve/wing"
	"github.com/patchbay-ai/patchbay/internal/store/durable"
	"github.com/patchbay-ai/patchbay/internal/wings/audit"
	"github.com/patchbay-ai/patchbay/internal/wings/audit/forward"
	"github.com/patchbay-ai/patchbay/internal/wings/audit/pgaudit"
)

// Folder is the folder of the audit below the data directory.
const Folder = "audit"

// office answers questions about the audit of a gateway.
type office struct {
	store audit.Store
	chain *audit.Writer
	// readers bounds the searches at a time.
	readers chan struct{}
}

const mostReaders = 2

// New returns the wing of the audit.
func New(core *wing.Core) *wing.Wing {
	o := &office{readers: make(chan struct{}, mostReaders)}
	w := &wing.Wing{Kept: kept(), Routes: o.routes, Doing: "keeping the audit"}
	w.Open = func() (err error) {
		if o.chain, o.store, err = Open(core.Document, core.Store.Data(), core.ID, core.Log); err != nil {
			return err
		}
		w.Trail, w.Run, w.Close = Trail{o.chain}, o.chain.Run, o.chain.Close
		w.Health = o.health
		return nil
	}
	return w
}

// Open opens the chains of the gateway with an id and a data directory.
func Open(doc *config.Document, data *durable.Dir, id string, log *slog.Logger) (*audit.Writer, audit.Store, error) {
	keys, err := doc.Security.MasterKeys()
	if err != nil {
		return nil, nil, err
	}
	store, err := StoreOf(doc.Store.Config, data.Path(""))
	if err != nil {
		return nil, nil, err
	}
	targets, err := targetsOf(&doc.Audit)
	if err != nil {
		return nil, nil, err
	}
	chain, err := audit.Open(audit.Options{
		Store: store, Settings: doc.Audit, Gateway: id, Dir: durable.At(data.Path(Folder)), Master: keys,
		Targets: targets, Log: logs.Named(log, logs.Audit),
	}, time.Now())
	return chain, store, err
}

// targetsOf returns where copies of the records go.
func targetsOf(settings *audit.Settings) (targets []audit.Target, err error) {
	trust, err := outgoing.Trust(settings.CA)
	if err != nil {
		return nil, fmt.Errorf("audit.ca: %w", err)
	}
	if settings.Syslog != "" {
		target, err := forward.Syslog(settings.Syslog, trust)
		if err != nil {
			return nil, err
		}
		targets = append(targets, target)
	}
	if settings.OTLP != "" {
		targets = append(targets, forward.OTLP(settings.OTLP, settings.Headers, trust))
	}
	return targets, nil
}

// StoreOf returns the store of records: the database of a shared configuration, else the data
// directory.
func StoreOf(database, data string) (audit.Store, error) {
	if database != "" {
		return pgaudit.New(database)
	}
	return audit.NewFiles(durable.At(filepath.Join(data, Folder))), nil
}

// health says whether the audit can be written.
func (o *office) health(to map[string]actuator.Component) {
	to["audit"] = actuator.Component{IsDegraded: o.chain.Failure() != nil}
}

// Trail records operations in the chains of a gateway.
type Trail struct{ Chain *audit.Writer }

func actOf(act *web.Act) audit.Act {
	return audit.Act{Record: audit.Record{
		Time: audit.Stamp(act.Began), Who: act.Who, Role: act.Role, Address: act.Address, Action: act.Action,
		Object: act.Object, Result: act.Result, Tenant: act.Tenant,
	}, Caller: act.Caller, IsStranger: act.IsStranger, IsLimited: act.IsLimited, SignsIn: act.SignsIn, Folds: act.Folds}
}

// Begin notes an operation before it is done.
func (t Trail) Begin(ctx context.Context, act web.Act) (string, error) {
	id, err := t.Chain.Begin(ctx, actOf(&act))
	var many *audit.TooMany
	if errors.As(err, &many) {
		return "", &web.TooMany{Wait: many.Wait}
	}
	return id, err
}

// End records an operation.
func (t Trail) End(ctx context.Context, id string, act web.Act) { t.Chain.End(ctx, id, actOf(&act)) }

// Drop forgets an operation that changed nothing.
func (t Trail) Drop(ctx context.Context, id string, act web.Act) { t.Chain.Drop(ctx, id, actOf(&act)) }
