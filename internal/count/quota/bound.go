package quota

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"time"
)

// Bound limits how many runs a ledger has in its database: those of an owner, which is an API key,
// and those of all owners. A run is a key of the ledger with a beginning.
type Bound struct {
	OfOwner, InAll int
	// Keeps reports whether a run stays in any case. Other runs are removed from memory when the
	// database has them and, beyond the bound, from the database, the oldest ones of the owner with the
	// most first.
	Keeps func(key *Key, start time.Time) bool
}

// enforceBound removes runs from the database beyond the bound. It reads nothing while less was
// written than there was room for.
func (s *session) enforceBound(ctx context.Context) error {
	b := s.ledger.options.Bound
	if b == nil || s.room >= 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, batchTime)
	defer cancel()
	store, err := s.snapshots(ctx)
	if err != nil {
		return err
	}
	rows, err := store.Read(ctx, Filter{Ranges: []Range{{Window: BudgetRun, To: s.now().Add(time.Hour)}}})
	if err != nil {
		return err
	}
	excess, room := b.excess(rows)
	for some := range slices.Chunk(excess, expireBatch) {
		if err := store.Remove(ctx, some); err != nil {
			return err
		}
		s.ledger.stats.rowsExpired.Add(int64(len(some)))
	}
	s.room = max(room, 0)
	return nil
}

// excess returns the runs beyond the bound, and for how many there is room without them. It changes the
// order of the rows.
func (b *Bound) excess(rows []Row) (excess []Row, room int) {
	slices.SortFunc(rows, func(x, y Row) int { return cmp.Or(x.Start.Compare(y.Start), x.Key.compare(y.Key)) })
	rows = slices.CompactFunc(rows, func(x, y Row) bool { return x.Start.Equal(y.Start) && x.Key == y.Key })
	owners := map[string]int{}
	for i := range rows {
		owners[rows[i].Key.APIKey]++
	}
	// candidate is a run that need not stay, and how many its owner has without older ones.
	type candidate struct {
		run  *Row
		left int
	}
	var candidates []candidate
	for i := range rows {
		if r := &rows[i]; !b.Keeps(&r.Key, r.Start) {
			candidates = append(candidates, candidate{r, owners[r.Key.APIKey]})
			owners[r.Key.APIKey]--
		}
	}
	slices.SortStableFunc(candidates, func(x, y candidate) int { return cmp.Compare(y.left, x.left) })
	room, most := b.InAll-len(rows), slices.Max(append(slices.Collect(maps.Values(owners)), 0))
	for _, c := range candidates {
		if room >= 0 && c.left <= b.OfOwner {
			most = max(most, c.left)
			break
		}
		excess, room = append(excess, *c.run), room+1
	}
	return excess, min(room, b.OfOwner-most)
}
