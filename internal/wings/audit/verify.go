package audit

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/patchbay-ai/patchbay/internal/store/durable"
)

// Verifier checks records, chain by chain in their order, and then the heads.
type Verifier struct {
	// Beginning is the number of the first record if the records are those of one file of
	// several; 0 where all records are there. HasMore says that later records are in others.
	Beginning int64
	HasMore   bool

	chains  []*verified
	current map[string]*verified // by gateway
	removed map[string]int64     // by gateway and chain, the last record that left
	ages    map[string]string    // by gateway and chain, since when records were not removed by age
	heads   map[string][]Head    // by gateway and seq, those without their record
	signed  []Head               // all heads
	keys    []PublicKey
	wanted  map[string]bool // hashes that records must have, and whether one has it
	fault   *Fault
}

// Fault is the first record that does not hold.
type Fault struct {
	Gateway string
	Seq     int64
	Why     string
}

func (f *Fault) Error() string {
	if f.Gateway == "" {
		return fmt.Sprintf("seq %d does not hold: %s", f.Seq, f.Why)
	}
	return fmt.Sprintf("seq %d does not hold: %s (gateway %s)", f.Seq, f.Why, f.Gateway)
}

// VerifiedChain is a chain that holds. Signed is the last record that a head covers, 0 if there
// is none.
type VerifiedChain struct {
	Gateway     string
	Chain       int
	First, Last int64
	Hash        string // of the last record
	Signed      int64
	SignedAt    string

	firstTime string
}

func (c *VerifiedChain) name() string { return nameOf(c.Gateway, c.Chain) }

func nameOf(gateway string, chain int) string { return fmt.Sprintf("%s %d", gateway, chain) }

// verified is a chain while it is read.
type verified struct {
	VerifiedChain
	last Record
	// isBroken says that the last record does not name the hash of the one before. The next
	// record tells which of the two was changed.
	isBroken bool
	// before is the end of the chain before, as the first record has it; zero if there is none.
	before position
	// ends has the hashes of the last records, up to mostAtOnce.
	ends []string
}

// hashAt returns the hash of a record, empty if it is not one of the last ones.
func (c *verified) hashAt(seq int64) string {
	if i := int64(len(c.ends)) - 1 - (c.Last - seq); i >= 0 && i < int64(len(c.ends)) {
		return c.ends[i]
	}
	return ""
}

// NewVerifier returns a verifier that knows heads, the keys that signed them, and hashes that
// records must have. Keys without a gateway verify the heads of all.
func NewVerifier(heads []Head, keys []PublicKey, hashes ...string) *Verifier {
	v := &Verifier{current: map[string]*verified{}, removed: map[string]int64{}, ages: map[string]string{},
		heads: map[string][]Head{}, wanted: map[string]bool{}, signed: heads, keys: keys}
	for _, hash := range hashes {
		v.wanted[strings.ToLower(hash)] = false
	}
	for _, h := range heads {
		if !verifies(keys, h.Gateway, h.signed(), h.Signature) && (v.fault == nil || h.Seq < v.fault.Seq) {
			v.fault = &Fault{h.Gateway, h.Seq, "no known key signed its head of " + h.Time}
		}
		at := headName(h.Gateway, h.Seq)
		v.heads[at] = append(v.heads[at], h)
	}
	return v
}

func headName(gateway string, seq int64) string { return fmt.Sprintf("%s %d", gateway, seq) }

// Add checks the next record. The number of its chain may be 0, where nobody knows it.
func (v *Verifier) Add(chain int, line []byte) {
	r, err := Read(line)
	if v.fault != nil { // those behind it still tell what was removed rightly
		if err == nil && v.isUnsealed(&r, line) == "" {
			v.noteRemoved(&r)
		}
		return
	}
	c := v.current[r.Gateway]
	if c == nil && err != nil && len(v.chains) > 0 {
		c = v.chains[len(v.chains)-1] // its gateway may be what was changed
	}
	begins := c == nil || chain != 0 && chain != c.Chain ||
		chain == 0 && r.Seq == 1 && r.Who == Self && r.Action == Begin
	if begins {
		if c != nil {
			v.end(c)
		}
		c = v.begin(chain, &r, c)
	}
	switch next := c.Last + 1; {
	case v.fault != nil:
	case c.isBroken:
		v.blame(c, &r)
	case err == nil && r.Seq != next:
		v.fail(c, next, fmt.Sprintf("seq %d is in its place", r.Seq))
	case err != nil:
		v.fail(c, next, err.Error())
	case begins && r.Seq == 1 && r.Previous != "":
		v.fail(c, next, "it is the first record and names one before it")
	case begins && r.Seq == 1 && chain > 1 && !(r.isSealed() && r.Action == Begin):
		v.fail(c, next, "it is the first record of a later chain and is no "+Begin)
	case v.isUnsealed(&r, line) != "":
		v.fail(c, next, v.isUnsealed(&r, line))
	case !begins && r.Previous != c.last.Hash:
		c.isBroken = true
	}
	if v.fault != nil {
		return
	}
	c.last, c.Last, c.Hash = r, r.Seq, r.Hash
	c.ends = append(c.ends[max(0, len(c.ends)-mostAtOnce):], r.Hash)
	v.note(c, &r)
}

// begin begins a chain with its first record. A damaged record may have any number.
func (v *Verifier) begin(chain int, r *Record, before *verified) *verified {
	first := max(r.Seq, 1)
	c := &verified{VerifiedChain: VerifiedChain{
		Gateway: r.Gateway, Chain: chain, First: first, Last: first - 1, firstTime: r.Time,
	}}
	if r.isSealed() && r.Action == Begin {
		if _, rest, ok := strings.Cut(r.Object, "; chain "); ok {
			_, _ = fmt.Sscanf(rest, "%d before it ended at seq %d, hash %s", &c.before.Chain, &c.before.Seq,
				&c.before.Hash)
		}
	}
	if chain == 0 { // the first records name the numbers, if any
		if c.before.Chain > 0 && before != nil {
			before.Chain = c.before.Chain
		}
		c.Chain = c.before.Chain + 1
		if before != nil {
			c.Chain = before.Chain + 1
		}
	}
	v.chains, v.current[r.Gateway] = append(v.chains, c), c
	return c
}

// blame decides which of two records that do not fit was changed: the next record knows the
// hash that the second one had.
func (v *Verifier) blame(c *verified, next *Record) {
	if next.Previous == c.last.Hash {
		v.end(c)
		return
	}
	v.fail(c, c.last.Seq, "it does not name the hash of the record before")
}

// end ends a chain.
func (v *Verifier) end(c *verified) {
	if c.isBroken {
		v.fail(c, c.last.Seq-1, "the next record names another hash")
	}
}

func (v *Verifier) fail(c *verified, seq int64, why string) {
	if v.fault == nil {
		v.fault = &Fault{c.Gateway, seq, why}
	}
}

// note takes from a good record what it says about heads and other records.
func (v *Verifier) note(c *verified, r *Record) {
	if _, isWanted := v.wanted[r.Hash]; isWanted {
		v.wanted[r.Hash] = true
	}
	at := headName(r.Gateway, r.Seq)
	if heads := v.heads[at]; len(heads) > 0 {
		v.heads[at] = slices.DeleteFunc(heads, func(h Head) bool {
			if h.Hash == r.Hash {
				c.Signed, c.SignedAt = r.Seq, h.Time
			}
			return h.Hash == r.Hash
		})
	}
	v.noteRemoved(r)
}

// isUnsealed returns why a record that explains why others are missing is not accepted; empty if it
// is, or is another record.
func (v *Verifier) isUnsealed(r *Record, line []byte) string {
	var until, at time.Time
	if r.isSealed() {
		until, _ = time.Parse(timeFormat, r.Until)
		at, _ = time.Parse(timeFormat, r.Time)
	}
	keep := time.Duration(r.Keep) * time.Second
	switch {
	case !r.isSealed():
	case !isSignedBy(v.keys, r, line):
		return "no known key of its gateway signed it (--key FILE names the keys)"
	case r.Cause != byAge && r.Cause != byBytes || until.IsZero() || r.Keep <= 0:
		return "it has not the cause, keep and until of removed records"
	case until.After(at) || r.Cause == byAge && until.After(at.Add(-keep)):
		return "it removes records before their time"
	}
	return ""
}

func (v *Verifier) noteRemoved(r *Record) {
	if !r.isSealed() || r.Action != Expire {
		return
	}
	var gateway string
	var chain int
	var last int64
	if n, _ := fmt.Sscanf(r.Object, "gateway %s chain %d, seq 1 to %d,", &gateway, &chain, &last); n == 3 {
		name := nameOf(strings.TrimSuffix(gateway, ","), chain)
		v.removed[name] = max(v.removed[name], last)
		if at, err := time.Parse(timeFormat, r.Time); err == nil && r.Cause == byAge {
			const longest = time.Hour // of an operation, whose record has the time when it began
			v.ages[name] = max(v.ages[name], Stamp(at.Add(longest-time.Duration(r.Keep)*time.Second)))
		}
	}
}

// Finish returns the chains, or the first record that does not hold as a *Fault.
func (v *Verifier) Finish() ([]VerifiedChain, error) {
	var done []VerifiedChain
	for _, c := range v.chains {
		v.end(c)
		v.checkBeginning(c)
		v.checkBefore(c)
		done = append(done, c.VerifiedChain)
	}
	for _, c := range v.chains {
		isOf := func(k PublicKey) bool { return k.Gateway == "" || k.Gateway == ownerOf(c.Gateway) }
		if len(v.keys) > 0 && !slices.ContainsFunc(v.keys, isOf) {
			v.fail(c, c.First, "no key of its gateway is known")
		}
	}
	v.checkHeads()
	for hash, isFound := range v.wanted {
		if v.fault == nil && !isFound {
			v.fault = v.withoutHead(hash)
		}
	}
	if v.fault != nil {
		return done, v.fault
	}
	return done, nil
}

// checkBeginning checks that records before a chain left because of their age. It goes before a
// fault of a later record.
func (v *Verifier) checkBeginning(c *verified) {
	gone := v.removed[c.name()]
	isLater := v.fault != nil && (v.fault.Gateway != c.Gateway || v.fault.Seq < c.First)
	switch {
	case isLater:
	case v.Beginning > 0:
		if c.First != v.Beginning && c == v.chains[0] {
			v.fault = &Fault{c.Gateway, v.Beginning, "it is missing"}
		}
	case c.First > gone+1:
		v.fault = &Fault{c.Gateway, gone + 1, "it is missing, and no record tells that it left because of its age"}
	case v.fault == nil && c.before.Seq > v.removed[nameOf(c.Gateway, c.before.Chain)] &&
		v.find(c.Gateway, c.before.Chain) == nil && v.Beginning == 0:
		v.fault = &Fault{c.Gateway, v.removed[nameOf(c.Gateway, c.before.Chain)] + 1,
			fmt.Sprintf("the whole chain %d is missing", c.before.Chain)}
	}
	for _, h := range v.signed {
		if isGone := h.Gateway == c.Gateway && h.Seq < min(gone, c.First) && h.Time < c.firstTime; isGone &&
			v.ages[c.name()] != "" && h.Time > v.ages[c.name()] {
			v.fail(c, h.Seq+1, "it was removed before its time: the gateway signed the record before it at "+h.Time)
		}
	}
}

// checkBefore checks that the chain before ends as the signed first record of a chain has it.
func (v *Verifier) checkBefore(c *verified) {
	before := v.find(c.Gateway, c.before.Chain)
	var last *verified // the chain that is there before c
	for _, other := range v.chains {
		if other == c {
			break
		}
		if other.Gateway == c.Gateway {
			last = other
		}
	}
	switch {
	case before == nil && last == nil:
	case before != last:
		v.fail(last, last.First, "no later chain of the gateway follows it")
	case before.hashAt(c.before.Seq) != "" && before.hashAt(c.before.Seq) != c.before.Hash:
		v.fail(before, before.Signed+1, fmt.Sprintf("of the records from here to seq %d, some are not those that the "+
			"gateway wrote", c.before.Seq))
	case before.Last > c.before.Seq:
		v.fail(before, c.before.Seq+1, "the gateway did not write it")
	case before.Last < c.before.Seq:
		v.fail(before, before.Last+1, fmt.Sprintf("it is missing: the gateway wrote the records up to seq %d",
			c.before.Seq))
	}
}

// find returns a chain, nil if it is not there.
func (v *Verifier) find(gateway string, chain int) *verified {
	i := slices.IndexFunc(v.chains, func(c *verified) bool { return c.Gateway == gateway && c.Chain == chain })
	if i < 0 {
		return nil
	}
	return v.chains[i]
}

// withoutHead is the fault of a head that no record has.
func (v *Verifier) withoutHead(hash string) *Fault {
	f := &Fault{Seq: 1, Why: "no record has the hash " + hash + " of the head: records are missing at the end, or " +
		"were written anew"}
	if len(v.chains) > 0 {
		last := v.chains[len(v.chains)-1]
		f.Gateway, f.Seq = last.Gateway, last.Last+1
	}
	return f
}

// checkHeads reports the first record of a head that the chains do not have.
func (v *Verifier) checkHeads() {
	var left []Head
	for _, heads := range v.heads {
		left = append(left, heads...)
	}
	slices.SortFunc(left, func(a, b Head) int {
		return cmp.Or(strings.Compare(a.Gateway, b.Gateway), cmp.Compare(a.Seq, b.Seq))
	})
	for _, h := range left {
		if v.fault == nil {
			v.checkHead(h)
		}
	}
}

// checkHead looks for the record of a head that no record matched.
func (v *Verifier) checkHead(h Head) {
	var first, of *verified // the oldest chain, and that of the head's time
	for _, c := range v.chains {
		if c.Gateway != h.Gateway {
			continue
		}
		if first == nil {
			first = c
		}
		if c.firstTime <= h.Time {
			of = c
		}
	}
	switch {
	case first == nil:
		v.fault = &Fault{h.Gateway, h.Seq, "the gateway signed it, and no record of this gateway is there"}
	case of == nil && first.First == 1 && first.before.Chain == 0:
		v.fail(first, 1, "nothing says that records were before it, and the gateway signed one")
	case of == nil || h.Seq < of.First || v.HasMore && h.Seq > of.Last:
		// It left because of its age, or is in another file.
	case h.Seq > of.Last:
		v.fail(of, of.Last+1, fmt.Sprintf("it is missing: the gateway signed the records up to seq %d", h.Seq))
	default:
		v.fail(of, of.Signed+1, fmt.Sprintf("of the records from here to seq %d, some are not those that the gateway "+
			"signed", h.Seq))
	}
}

// Verify verifies everything in a store. Keys that are given stand in place of those of the
// store, and records must have the hashes.
func Verify(ctx context.Context, store Store, keys []PublicKey, hashes ...string) ([]VerifiedChain, error) {
	heads, err := store.Heads(ctx, 0)
	if err != nil {
		return nil, err
	}
	if keys == nil {
		if keys, err = store.Keys(ctx); err != nil {
			return nil, err
		}
	}
	v := NewVerifier(heads, keys, hashes...)
	if err := store.Each(ctx, func(chain int, line []byte) error { v.Add(chain, line); return nil }); err != nil {
		return nil, err
	}
	return v.Finish()
}

// VerifyFile verifies a file of records: one of a data directory, with the heads beside it where
// the directory has a single chain, or an export.
func VerifyFile(ctx context.Context, path string, keys []PublicKey, hashes ...string) ([]VerifiedChain, error) {
	content, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var heads []Head
	store := NewFiles(durable.At(filepath.Dir(path)))
	place, isSegment := placeOf(filepath.Base(path))
	hasMore := false
	if isSegment {
		list, err := store.segmentsOf(place.isLow)
		if err != nil {
			return nil, err
		}
		isSingle := true
		for _, s := range list {
			isSingle, hasMore = isSingle && s.chain == place.chain, hasMore || s.file > place.file
		}
		if isSingle {
			heads, err = store.Heads(ctx, 0)
			heads = slices.DeleteFunc(heads, func(h Head) bool { return IsLow(h.Gateway) != place.isLow })
		}
		if err == nil && keys == nil {
			keys, err = store.Keys(ctx)
		}
		if err != nil {
			return nil, err
		}
	}
	v := NewVerifier(heads, keys, hashes...)
	v.Beginning, v.HasMore = place.first, hasMore
	for line := range bytes.Lines(content) {
		if line = bytes.TrimSpace(line); len(line) > 0 {
			v.Add(place.chain, line)
		}
	}
	return v.Finish()
}
