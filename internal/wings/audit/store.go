package audit

import (
	"context"
	"slices"
	"strings"
	"time"
)

// Store keeps the chains of a gateway. In a database it keeps those of all gateways that share
// the database. One goroutine at a time calls the methods that write, but for Remove.
type Store interface {
	// Load returns the end of a chain by its name.
	Load(ctx context.Context, name string) (State, error)
	// Intend keeps an intent, whose record names the chain, until Append is called with its id.
	Intend(ctx context.Context, intent Intent) error
	// Append adds records to a chain, and forgets intents. Either all records are there
	// afterwards, or the first ones, or none.
	Append(ctx context.Context, b Batch) error
	// KeepsMarks reports whether the store keeps the marks of chains; if not, the data directory
	// does. SetMark keeps one.
	KeepsMarks() bool
	SetMark(ctx context.Context, name, mark string) error
	// Search returns the newest records that a query asks for, and how many there are in all if
	// the query counts them.
	Search(ctx context.Context, q Query) (found []Record, total int, err error)
	// Each calls a function with all records as JSON, chain by chain, the oldest first.
	Each(ctx context.Context, visit func(chain int, line []byte) error) error
	// After returns the records of a chain behind a number.
	After(ctx context.Context, name string, chain int, seq int64, limit int) ([]Record, error)
	// Heads returns the newest heads, and AddHead adds one. Limit 0 is all of them.
	Heads(ctx context.Context, limit int) ([]Head, error)
	AddHead(ctx context.Context, h Head) error
	// Keys returns the public keys of all heads, and SetKey adds or changes one.
	Keys(ctx context.Context) ([]PublicKey, error)
	SetKey(ctx context.Context, key PublicKey) error
	// Old returns the beginnings of chains that only have records from before a time, or that
	// have to be removed for the others to fit into a number of bytes, of which those of IsLow
	// get at most half. Remove removes one.
	Old(ctx context.Context, before time.Time, room int64) ([]Span, error)
	Remove(ctx context.Context, s Span) error
	Close()
}

// Batch is what Append does. In a directory, Begins makes the records the first ones of a new
// file. Mark is the mark of the chain with these records, if the store keeps marks.
type Batch struct {
	Name    string
	Chain   int
	Begins  bool
	Records []Record
	Done    []string
	Mark    string
}

// State is the end of a chain.
type State struct {
	// Chain is the number of the chain; 0 if there is none.
	Chain int
	// First is when the first record of the chain was made that is still there, and Last is
	// the last record.
	First string
	Last  Record
	// Began and Bytes describe the file with the last record.
	Began time.Time
	Bytes int64
	// Fault is why the chain cannot be continued; empty if it can. Mark is the mark of the chain,
	// if the store keeps it.
	Fault, Mark string
	// Head is the last head of the chain, and Keys are the public keys.
	Head Head
	Keys []PublicKey
	// Intents were neither recorded nor forgotten.
	Intents []Intent
	// Restored describes the last restore of a backup to this place.
	Restored Restored
}

// Restored tells when a backup was restored, and when the backup was made. It is also the
// content of the file that a restore leaves in the directory of the audit.
type Restored struct {
	Time string `json:"time"`
	Made string `json:"made"`
}

// RestoredFile is the name of that file.
const RestoredFile = "restored.json"

// Intent is the record of an operation that has begun.
type Intent struct {
	ID     string `json:"id"`
	Record Record `json:"record"`
}

// Span is the beginning of a chain, up to its record Last with this hash and time.
type Span struct {
	Gateway    string
	Chain      int
	Last       int64
	Hash, Time string
}

// Query says which records are searched for.
type Query struct {
	// From and To bound the time; empty texts do not.
	From, To string
	// Who is a part of the name, and What a part of action, object or result. Case does not
	// matter.
	Who, What string
	// Tenants limits the records to those of these tenants; nil does not.
	Tenants []string
	// Skip is how many records are left out, and Limit how many are returned.
	Skip, Limit int
	// Counts reports whether all matching records are counted.
	Counts bool
}

// Matches reports whether a query asks for a record.
func (q *Query) Matches(r *Record) bool {
	return (q.From == "" || r.Time >= q.From) && (q.To == "" || r.Time < q.To) &&
		(q.Tenants == nil || r.Tenant != "" && slices.Contains(q.Tenants, r.Tenant)) && holds(r.Who, q.Who) &&
		(q.What == "" || holds(r.Action, q.What) || holds(r.Object, q.What) || holds(r.Result, q.What))
}

func holds(text, part string) bool {
	return part == "" || strings.Contains(strings.ToLower(text), strings.ToLower(part))
}
