// Package takeover decides whether data without a signature is read.
//
// Releases up to 9b73041f signed neither the totals of budgets in Redis nor kept
// responses, and they signed no descriptions of files and batches. With a master key the
// present release signs all of these and refuses unsigned data. Each kind of data (Thing)
// follows these rules by itself:
//
//   - Without a master key nothing is signed, and everything is read.
//   - The first start with a master key that finds no mark takes the thing over: it reads
//     and signs unsigned data. When all of it is signed, Finish sets the mark. A process
//     that ends before that leaves no mark, and the next start takes over again.
//   - With the mark, unsigned data is refused.
//   - The mark is signed with the master key. It is in the data directory and, where
//     gateways share their configuration, beside that in PostgreSQL. One of the two is
//     enough, and each start writes the other one again. So an attacker who can write only
//     to Redis or PostgreSQL cannot remove the mark in a gateway's own data directory, and
//     a gateway that begins with an empty directory finds the mark of the others. Until the
//     shared mark could be read, nothing is taken over.
//   - A thing that is kept in Redis may leave a signed mark there as well, for gateways
//     that share nothing else. A reader that finds this mark, or finds signed data where
//     unsigned data would be taken over, calls Found, or skips the unsigned data.
//   - security.accept-unsigned reads signed and unsigned data alike, whatever the marks
//     say: for the time when gateways of both releases run. Data that is read then is
//     signed as in a takeover: it is still there when the setting is off.
package takeover

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/patchbay-ai/patchbay/internal/store/durable"
	"github.com/patchbay-ai/patchbay/internal/store/seal"
)

// Thing is a kind of data that is taken over as a whole.
type Thing string

// The things that releases up to 9b73041f did not sign.
const (
	Budgets   Thing = "budgets"   // their totals in Redis
	Documents Thing = "documents" // descriptions of files and batches
	Responses Thing = "responses" // responses in Redis
)

// file is the name of the file in the data directory that has the marks, and prefix begins
// the names of the marks among the values of a shared configuration.
const (
	file   = "taken-over.json"
	prefix = "taken-over/"
)

// Values are the records that gateways with a shared configuration have in common.
type Values interface {
	Change(ctx context.Context, edit func() (name string, value []byte, err error)) error
}

// Options are the parts of Records.
type Options struct {
	// Keys are the master keys; without them nothing is signed.
	Keys *seal.Keys
	// AcceptUnsigned is the setting security.accept-unsigned.
	AcceptUnsigned bool
	// Data is the data directory.
	Data *durable.Dir
	// Values belong to the shared configuration, and Take follows them; nil where
	// gateways share none.
	Values Values
	Log    *slog.Logger
}

// Records know which things were taken over. A gateway without a master key has nil
// Records. All methods may be called at the same time.
type Records struct {
	options Options

	mu sync.Mutex
	// own are the marks in the data directory and shared the marks beside the
	// configuration, by thing. isKnown says that the shared marks were read.
	own, shared map[Thing]bool
	isKnown     bool
}

// Open reads the marks in the data directory. Without keys it returns nil.
func Open(options Options) (*Records, error) {
	if options.Keys == nil {
		return nil, nil
	}
	r := &Records{options: options, own: map[Thing]bool{}, shared: map[Thing]bool{}, isKnown: options.Values == nil}
	data, err := options.Data.Read(file)
	if errors.Is(err, fs.ErrNotExist) {
		return r, nil
	}
	if err != nil {
		return nil, err
	}
	var signatures map[Thing]string
	if err := json.Unmarshal(data, &signatures); err != nil {
		options.Log.Warn("the marks that unsigned data was taken over cannot be read and are passed over", "file", file,
			"error", err)
	}
	for thing, signature := range signatures {
		if err := options.Keys.Verify(signature, "taken over", string(thing)); err != nil {
			options.Log.Warn("the mark that unsigned data was taken over is not one of this master key and is passed "+
				"over", "file", file, "mark", thing, "error", err)
			continue
		}
		r.own[thing] = true
	}
	return r, nil
}

// Take is told of the values of a shared configuration. It is a control.Follower.
func (r *Records) Take(_ string, whole bool, values map[string]seal.Value) {
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if whole {
		clear(r.shared)
	}
	r.isKnown = true
	for name, value := range values {
		if thing, ok := strings.CutPrefix(name, prefix); ok && value.IsTrusted {
			r.shared[Thing(thing)] = true
		}
	}
}

// Keys returns the master keys, nil where there are none.
func (r *Records) Keys() *seal.Keys {
	if r == nil {
		return nil
	}
	return r.options.Keys
}

// AcceptsUnsigned reports whether the setting security.accept-unsigned is on.
func (r *Records) AcceptsUnsigned() bool { return r != nil && r.options.AcceptUnsigned }

// IsKnown reports whether all marks were read.
func (r *Records) IsKnown() bool {
	if r == nil {
		return true
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.isKnown
}

// ReadsUnsigned reports whether data of a thing that has no signature is read now.
func (r *Records) ReadsUnsigned(thing Thing) bool {
	return r == nil || r.options.AcceptUnsigned || r.IsOpen(thing)
}

// IsOpen reports whether this process takes the thing over: it must sign all of its data,
// and then call Finish.
func (r *Records) IsOpen(thing Thing) bool {
	if r == nil {
		return false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.isKnown && !r.own[thing] && !r.shared[thing]
}

// Found says that another gateway has taken the thing over, as signed data shows.
func (r *Records) Found(thing Thing) {
	if r == nil {
		return
	}
	if err := r.setOwn(thing); err != nil {
		r.options.Log.Warn("it cannot be remembered that unsigned data was taken over; the next start finds it out "+
			"again", "of", thing, "error", err)
	}
}

// Finish sets the mark that all data of a thing is signed. After an error the thing stays
// open, and Finish is called again.
func (r *Records) Finish(ctx context.Context, thing Thing) error {
	if r == nil {
		return nil
	}
	if err := r.setShared(ctx, thing); err != nil {
		return err
	}
	if err := r.setOwn(thing); err != nil {
		return err
	}
	r.options.Log.Info("what was stored without a signature is taken over; from now on it is refused", "of", thing)
	return nil
}

// Renew copies the marks of the shared configuration to the data directory and the other
// way round, and signs marks of a previous master key with the present one. It is called
// once, after Take.
func (r *Records) Renew(ctx context.Context) error {
	if r == nil {
		return nil
	}
	r.mu.Lock()
	isKnown, own, shared := r.isKnown, maps.Clone(r.own), maps.Clone(r.shared)
	r.mu.Unlock()
	if !isKnown || len(own)+len(shared) == 0 {
		return nil
	}
	for thing := range own {
		if shared[thing] {
			continue
		}
		if err := r.setShared(ctx, thing); err != nil {
			return err
		}
	}
	return r.setOwn(slices.Collect(maps.Keys(shared))...)
}

// setShared sets a mark beside the shared configuration, where there is one.
func (r *Records) setShared(ctx context.Context, thing Thing) error {
	if r.options.Values == nil {
		return nil
	}
	err := r.options.Values.Change(ctx, func() (string, []byte,
		error) {
		return prefix + string(thing), []byte("true"), nil
	})
	if err != nil {
		return fmt.Errorf("%s%s: %w", prefix, thing, err)
	}
	return nil
}

// setOwn writes the marks of the data directory and adds more things to them.
func (r *Records) setOwn(things ...Thing) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	marks := maps.Clone(r.own)
	for _, thing := range things {
		marks[thing] = true
	}
	signatures := map[Thing]string{}
	for thing := range marks {
		signatures[thing] = r.options.Keys.Sign("taken over", string(thing))
	}
	data, err := json.Marshal(signatures, json.Deterministic(true), jsontext.WithIndent("  "))
	if err == nil {
		err = r.options.Data.Write(file, append(data, '\n'))
	}
	if err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	r.own = marks
	return nil
}
