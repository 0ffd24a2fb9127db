package fleet

import (
	"encoding/binary"
	"math"

	"github.com/minio/highwayhash"
)

// tie is how near two costs are that count as equal, in seconds.
const tie = 1e-9

// inTurn returns one of the instances with the least cost. They have their turns as in
// smooth weighted round robin: each gets credit by its share of the weights, and the one
// with the most pays 1 for being taken.
func inTurn(all []weighed) *weighed {
	low, total := ties(all)
	var best *weighed
	for n := range all {
		w := &all[n]
		if w.cost > low {
			continue
		}
		if w.instance.credit += w.weight / total; best == nil || w.instance.credit > best.instance.credit {
			best = w
		}
	}
	best.instance.credit--
	return best
}

// nextInTurn returns the one that inTurn would, and changes nothing.
func nextInTurn(all []weighed) *Instance {
	credits := make([]float64, len(all))
	for n := range all {
		credits[n] = all[n].instance.credit
	}
	next := inTurn(all).instance
	for n := range all {
		all[n].instance.credit = credits[n]
	}
	return next
}

// ties returns the highest cost that counts as the cheapest, and the weights of the
// instances up to it.
func ties(all []weighed) (low, weights float64) {
	low = math.Inf(1)
	for n := range all {
		if all[n].cost < low {
			low = all[n].cost
		}
	}
	low += tie
	for n := range all {
		if all[n].cost <= low {
			weights += all[n].weight
		}
	}
	return low, weights
}

// firstCredit returns the first credit of an instance on a gateway. It makes
// gateways that know nothing of each other begin with different instances.
func firstCredit(gateway string, instance uint64) float64 {
	var key Secret
	text := binary.BigEndian.AppendUint64([]byte(gateway), instance)
	return float64(highwayhash.Sum64(text, key[:])>>11) / (1 << 53)
}
