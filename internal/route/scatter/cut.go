package scatter

import "math"

// Place is an instance that could take a piece of a request.
type Place struct {
	// Wait is when it could begin, in seconds from now, and PerToken how many seconds it
	// takes for a token. Where that is not known, Wait is 0 and PerToken any number that
	// compares the instances.
	Wait, PerToken float64
}

// Piece is the part of a request that one instance gets: the inputs from From up to and
// not including To. Place is the index of the instance.
type Piece struct{ Place, From, To int }

// Cut splits the work for all places to end at the same time. Places that begin later or
// are slower get less. Each gets one run of inputs. The places come in the order of
// preference. A place gets nothing if its part would be less than the least. Cut returns
// nil if fewer than two would get something.
func (w *Work) Cut(places []Place, settings Settings) []Piece {
	chosen := make([]int, 0, len(places))
	for n := range places {
		if len(chosen) < settings.MaxSplit {
			chosen = append(chosen, n)
		}
	}
	most := min(w.Inputs()/settings.leastInputs(), int(min(w.Tokens()/settings.leastTokens(), mostSplit)))
	chosen = chosen[:min(len(chosen), most)]
	for len(chosen) > 1 {
		portions := level(places, chosen, float64(w.Tokens()))
		pieces, tooSmall := w.divide(chosen, portions, settings)
		if tooSmall < 0 {
			return pieces
		}
		chosen = append(chosen[:tooSmall], chosen[tooSmall+1:]...)
	}
	return nil
}

// level divides an amount of work for all chosen places to end at the same time. A place
// that begins only after that gets 0.
func level(places []Place, chosen []int, work float64) []float64 {
	portions := make([]float64, len(chosen))
	end := math.Inf(1)
	for {
		// The common end of the places that begin before the last end found.
		rate, ahead := 0.0, 0.0
		for _, n := range chosen {
			if p := places[n]; p.Wait < end {
				rate += 1 / p.PerToken
				ahead += p.Wait / p.PerToken
			}
		}
		next := (work + ahead) / rate
		if next >= end { // all of them do
			break
		}
		end = next
	}
	for at, n := range chosen {
		portions[at] = max(0, (end-places[n].Wait)/places[n].PerToken)
	}
	return portions
}

// divide gives each chosen place the run of inputs that comes nearest to its portion. If one
// of the runs is smaller than the least, it returns the index of the smallest portion.
func (w *Work) divide(chosen []int, portions []float64, settings Settings) (pieces []Piece, tooSmall int) {
	total, smallest := 0.0, 0
	for at, portion := range portions {
		total += portion
		if portion < portions[smallest] {
			smallest = at
		}
	}
	from, until := 0, 0.0
	for at, n := range chosen {
		until += portions[at]
		to := w.nearest(from, until/total*float64(w.Tokens()))
		if at == len(chosen)-1 {
			to = w.Inputs()
		}
		if to-from < settings.leastInputs() || w.between(from, to) < settings.leastTokens() {
			return nil, smallest
		}
		pieces = append(pieces, Piece{Place: n, From: from, To: to})
		from = to
	}
	return pieces, -1
}

// nearest returns the number of inputs, at least from, that brings the work nearest to an
// amount.
func (w *Work) nearest(from int, amount float64) int {
	to := from
	for to < w.Inputs() && float64(w.tokens[to]) <= amount {
		to++
	}
	if to < w.Inputs() && float64(w.tokens[to])-amount < amount-float64(w.between(0, to)) {
		to++
	}
	return to
}
