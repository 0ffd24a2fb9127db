package backup

import (
	"archive/zip"
	"cmp"
	"context"
	"database/sql"
	"errors"
	"io"
	"io/fs"
	"os"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/patchbay-ai/patchbay/internal/count/quota"
	"github.com/patchbay-ai/patchbay/internal/count/quota/sqlstore"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
	"github.com/patchbay-ai/patchbay/internal/store"
	"github.com/patchbay-ai/patchbay/internal/store/seal"
)

// row is a row of the ledger, of usage or of a budget, as an archive has it.
type row struct {
	Window  string             `json:"window"`
	Start   int64              `json:"start"`
	Tenant  string             `json:"tenant,omitzero"`
	APIKey  string             `json:"key,omitzero"`
	User    string             `json:"user,omitzero"`
	Service schema.ServiceType `json:"service"`
	Model   string             `json:"model,omitzero"`
	Writer  string             `json:"writer"`
	// Totals are requests, tokens, tokens of prompts and of completions, and the cost.
	Totals [5]int64 `json:"totals"`
}

func rowOf(r *quota.Row) row {
	return row{r.Window.String(), r.Start.Unix(), r.Key.Tenant, r.Key.APIKey, r.Key.User, r.Key.Service, r.Key.Model,
		r.Writer, [...]int64{r.Requests, r.Tokens, r.Prompt, r.Completion, r.Cost}}
}

func (r *row) stored() (quota.Row, error) {
	window, err := quota.ParseStoredWindow(r.Window)
	t := r.Totals
	return quota.Row{Writer: r.Writer, Window: window, Start: time.Unix(r.Start, 0).UTC(),
		Key:    quota.Key{Tenant: r.Tenant, APIKey: r.APIKey, User: r.User, Service: r.Service, Model: r.Model},
		Totals: quota.Totals{Requests: t[0], Tokens: t[1], Prompt: t[2], Completion: t[3], Cost: t[4]}}, err
}

// backUpLedger adds all rows of the ledger. The journals are read before the database: what a
// flush moves from one to the other meanwhile is in both.
func (p *Place) backUpLedger(ctx context.Context, w *seal.Archive, done *Summary) error {
	ahead, err := p.readJournals()
	if err != nil {
		return err
	}
	return w.Add(ledgerName, zip.Deflate, func(to io.Writer) error {
		out := jsontext.NewEncoder(to)
		write := func(r row) error {
			done.Rows++
			return json.MarshalEncode(out, r)
		}
		err := p.eachRow(ctx, func(found *quota.Row) error {
			r := rowOf(found)
			if known, isAhead := ahead[r.id()]; isAhead {
				for i := range r.Totals {
					r.Totals[i] = max(r.Totals[i], known.Totals[i])
				}
				delete(ahead, r.id())
			}
			return write(r)
		})
		for _, r := range ahead {
			err = cmp.Or(err, write(r))
		}
		return err
	})
}

// id returns the row without its totals.
func (r row) id() row {
	r.Totals = [5]int64{}
	return r
}

// readJournals returns the rows of the journals, which the database may lack, by their ids.
func (p *Place) readJournals() (map[row]row, error) {
	ahead := map[row]row{}
	for _, folder := range p.folders(store.Ledger) {
		rows, err := quota.ReadJournal(folder)
		if err != nil {
			return nil, err
		}
		for i := range rows {
			r := rowOf(&rows[i])
			ahead[r.id()] = r
		}
	}
	return ahead, nil
}

// eachRow calls a function with the rows of the database, if there is one.
func (p *Place) eachRow(ctx context.Context, visit func(*quota.Row) error) error {
	if path, isFile := sqlstore.File(p.Ledger, p.DataDir); isFile {
		if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
			return nil // nothing was ever flushed
		}
	}
	store, err := sqlstore.Open(ctx, p.Ledger, p.DataDir)
	if err != nil {
		return err
	}
	return errors.Join(store.Each(ctx, visit), store.Close())
}

// restoreLedger replaces the rows of the ledger in a transaction, in which it calls a function
// before the commit.
func (r *restoring) restoreLedger(ctx context.Context, before func(*sql.Tx) error) (err error) {
	path, isFile := sqlstore.File(r.place.Ledger, r.place.DataDir)
	if _, missing := os.Stat(path); isFile && missing != nil {
		defer func() {
			if err != nil {
				for _, suffix := range []string{"", "-wal", "-shm"} {
					_ = os.Remove(path + suffix) // it was made here
				}
			}
		}()
	}
	if !r.force {
		if err := r.place.eachRow(ctx, func(*quota.Row) error { return r.notEmpty("the ledger") }); err != nil {
			return err
		}
	}
	store, err := sqlstore.Open(ctx, r.place.Ledger, r.place.DataDir)
	if err != nil {
		return err
	}
	err = store.Replace(ctx, func(tx *sql.Tx, write func([]quota.Row) error) error {
		if err := r.writeRows(write); err != nil {
			return err
		}
		return before(tx)
	})
	return errors.Join(err, store.Close())
}

// writeRows writes the rows of the archive, some at a time.
func (r *restoring) writeRows(write func([]quota.Row) error) error {
	const atATime = 1000
	return r.archive.read(ledgerName, func(from io.Reader) error {
		in := jsontext.NewDecoder(from)
		var rows []quota.Row
		for {
			var next row
			err := json.UnmarshalDecode(in, &next)
			if errors.Is(err, io.EOF) {
				return write(rows)
			}
			if err != nil {
				return err
			}
			one, err := next.stored()
			if err != nil {
				return err
			}
			r.done.Rows++
			if rows = append(rows, one); len(rows) == atATime {
				if err := write(rows); err != nil {
					return err
				}
				rows = rows[:0]
			}
		}
	})
}
