// Package recall describes responses that are kept for the clients that made them, and the
// store that keeps them. The unified API continues responses that a store has; which store
// there is, if any, others decide.
package recall

import (
	"context"
	"errors"
)

// Owner is the API key that made an answer. It is the zero value where no keys are
// required.
type Owner struct {
	// Key is the id of the key.
	Key string
	// Issue tells apart the keys that had this id one after the other.
	Issue string
	// Tenant is the tenant of the key, empty if it has none. The answers of all keys of a
	// tenant together are weighed against the answers of others.
	Tenant string
}

// Answer is a response that is kept.
type Answer struct {
	ID    string
	Owner Owner
	// Previous are the ids of the responses that it continues, the first one first.
	Previous []string
	// Input holds the client's input for it, as elements of a JSON array, and Response
	// the response itself. Both are empty for a response that a backend keeps.
	Input, Response []byte
	// Instance is the id of the instance that keeps the response; empty if it is here.
	Instance string
	// Run is the name of the agent's run that made it, empty if none did.
	Run string
}

// Store keeps answers.
type Store interface {
	// Put keeps an answer. It returns ErrTooLarge for one that takes more than a share
	// of the bound.
	Put(ctx context.Context, a *Answer) error
	// Get returns answers of an owner by their ids, in the same order, nil for missing
	// ones, and keeps them for as long as if they were new.
	Get(ctx context.Context, owner Owner, ids ...string) ([]*Answer, error)
	// Delete removes an answer and reports whether it was there.
	Delete(ctx context.Context, owner Owner, id string) (bool, error)
	// Give notes that an owner was given ids, which are remembered for as long as answers
	// are, and within bounds.
	Give(ctx context.Context, owner Owner, ids ...string) error
	// Given reports which ids an owner was given, and remembers them for as long as if they
	// were new.
	Given(ctx context.Context, owner Owner, ids ...string) ([]bool, error)
}

// ErrTooLarge means that an answer is too large to be kept.
var ErrTooLarge = errors.New("the response is too large to be kept")
