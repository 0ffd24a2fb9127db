package plan

import (
	"cmp"
	"slices"
	"time"

	"github.com/patchbay-ai/patchbay/internal/hosts/backend"
	"github.com/patchbay-ai/patchbay/internal/hosts/fleet"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
	"github.com/patchbay-ai/patchbay/internal/route/routing"
	"github.com/patchbay-ai/patchbay/internal/route/scatter"
)

// Piece is a part of a split request, and the instance that it was cut for.
type Piece struct {
	scatter.Piece
	At   *backend.Instance
	work *scatter.Work
}

// Request returns the request for the piece. Its memory is taken with reserve.
func (p *Piece) Request(reserve func(bytes int) error) (*schema.Request, error) {
	return p.work.Request(p.Piece, reserve)
}

// Tokens returns the estimated tokens of the inputs of the piece.
func (p *Piece) Tokens() int64 { return p.work.Between(p.Piece) }

// Split decides how a request is split over instances of a pool that are ready and have their
// model in memory: nobody is woken up for a part of a request that others can answer. It
// returns nil if the request goes to one instance.
func Split(pool *routing.Pool, ready []*backend.Instance, req *schema.Request, now time.Time) []Piece {
	settings := pool.Service.Policy.Split
	if ready = Preferred(pool, ready, false, true, now); len(ready) < 2 {
		return nil
	}
	work := scatter.Read(req, settings)
	if work == nil {
		return nil
	}
	able := slices.DeleteFunc(slices.Clone(ready), func(i *backend.Instance) bool {
		return i.Target.RefuseRequest(req, nil) != nil
	})
	var pieces []Piece
	for _, cut := range work.Cut(rankPlaces(able, work.Tokens(), now), settings) {
		pieces = append(pieces, Piece{cut, able[cut.Place], work})
	}
	return pieces
}

// rankPlaces sorts instances by preference for an amount of work, and returns how they
// compare: by the picture that the fleet has of all of them, or else by their weights,
// beginning with the fewest calls.
func rankPlaces(ready []*backend.Instance, tokens int64, now time.Time) []scatter.Place {
	known := make(map[*backend.Instance]scatter.Place, len(ready))
	for _, i := range ready {
		if engine := i.Engine(); engine != nil {
			picture := engine.Picture(now)
			known[i] = scatter.Place{Wait: picture.Queue, PerToken: picture.PerToken}
		}
	}
	if len(known) == len(ready) {
		part := float64(tokens) / float64(len(ready))
		slices.SortStableFunc(ready, func(a, b *backend.Instance) int {
			return cmp.Compare(known[a].Wait+part*known[a].PerToken, known[b].Wait+part*known[b].PerToken)
		})
	} else {
		slices.SortStableFunc(ready, func(a, b *backend.Instance) int {
			return cmp.Compare(a.InFlight()*b.Share, b.InFlight()*a.Share)
		})
		for _, i := range ready {
			known[i] = scatter.Place{PerToken: 1 / float64(i.Share)}
		}
	}
	places := make([]scatter.Place, len(ready))
	for n, i := range ready {
		places[n] = known[i]
	}
	return places
}

// Preferred returns the ready instances of a pool that have their model in memory, or else
// the best ones to load it; see fleet.Preferred for spread and onlyAsk. The given list stays
// as it is.
func Preferred(
	pool *routing.Pool, ready []*backend.Instance, spread, onlyAsk bool, now time.Time,
) []*backend.Instance {
	if !pool.Kept || len(ready) < 2 {
		return ready
	}
	places := make([]*fleet.Instance, len(ready))
	var f *fleet.Fleet
	for n, i := range ready {
		if model := i.Resident(); model != nil {
			places[n] = model.Place()
			f = places[n].Fleet()
		}
	}
	if f == nil {
		return ready
	}
	chosen := f.Preferred(places, spread, onlyAsk, now)
	if len(chosen) == 0 {
		return ready // all are the same, or none has room, which the caller is told when it is tried
	}
	list := make([]*backend.Instance, len(chosen))
	for n, at := range chosen {
		list[n] = ready[at]
	}
	return list
}
