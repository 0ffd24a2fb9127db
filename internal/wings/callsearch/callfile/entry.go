package callfile

import (
	"encoding/hex"
	"fmt"
	"net/netip"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/patchbay-ai/patchbay/internal/count/prices"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
	"github.com/patchbay-ai/patchbay/internal/see/calls"
	"github.com/patchbay-ai/patchbay/internal/see/metrics"
)

// entry is a call as a line of the file. Values that have names are written by name, so that
// another release reads them, and members that are not known are skipped. Times are
// microseconds.
type entry struct {
	Number     uint64       `json:"n"`
	ID         string       `json:"id"`
	Started    int64        `json:"t"`
	Status     int          `json:"http,omitzero"`
	Code       string       `json:"code,omitzero"`
	Message    string       `json:"said,omitzero"`
	Of         string       `json:"of,omitzero"`
	Until      int64        `json:"until,omitzero"`
	Gone       bool         `json:"gone,omitzero"`
	Service    string       `json:"service"`
	Door       string       `json:"door"`
	Model      string       `json:"model,omitzero"`
	Asked      string       `json:"asked,omitzero"`
	Instance   string       `json:"instance,omitzero"`
	Strategy   string       `json:"strategy,omitzero"`
	Candidates []uint16     `json:"candidates,omitzero"`
	Key        string       `json:"key,omitzero"`
	Tenant     string       `json:"tenant,omitzero"`
	User       string       `json:"user,omitzero"`
	Client     string       `json:"ip,omitzero"`
	Streamed   bool         `json:"streamed,omitzero"`
	Tokens     *entryTokens `json:"tokens,omitzero"`
	Cost       int64        `json:"cost,omitzero"`
	Routed     bool         `json:"routed,omitzero"`
	Result     string       `json:"result"`
	Ready      int64        `json:"ready,omitzero"`
	Limited    int64        `json:"limited,omitzero"`
	FirstByte  int64        `json:"byte,omitzero"`
	FirstToken int64        `json:"token,omitzero"`
	Ended      int64        `json:"end"`
	PerToken   int64        `json:"pace,omitzero"`
	Queued     int64        `json:"queued,omitzero"`
	Upstream   int64        `json:"upstream,omitzero"`
	Held       int64        `json:"held,omitzero"`
	Cache      string       `json:"cache,omitzero"`
	Class      string       `json:"class,omitzero"`
	Fallbacks  int          `json:"fallbacks,omitzero"`
	Pieces     int          `json:"pieces,omitzero"`
	Resumed    int          `json:"resumed,omitzero"`
	Hedge      string       `json:"hedge,omitzero"`
	Attempts   int          `json:"attempts,omitzero"`
	Tries      []entryTry   `json:"tries,omitzero"`
	Trace      string       `json:"trace,omitzero"`
}

type entryTokens struct {
	Prompt     int64 `json:"in"`
	Completion int64 `json:"out"`
	Total      int64 `json:"total"`
	Cached     int64 `json:"cached,omitzero"`
}

type entryTry struct {
	Instance  string  `json:"instance"`
	Adapter   string  `json:"adapter,omitzero"`
	Began     int64   `json:"began,omitzero"`
	Sent      int64   `json:"sent,omitzero"`
	FirstByte int64   `json:"byte,omitzero"`
	Ended     int64   `json:"end,omitzero"`
	Expected  int64   `json:"expected,omitzero"`
	Matched   float64 `json:"matched,omitzero"`
	Reused    bool    `json:"reused,omitzero"`
	Status    int     `json:"http,omitzero"`
	Code      string  `json:"code,omitzero"`
	Cause     string  `json:"cause,omitzero"`
	Text      string  `json:"text,omitzero"`
	Resumed   string  `json:"resumed,omitzero"`
}

// appendRecord appends the line of a record.
func appendRecord(to []byte, c *calls.Record) ([]byte, error) {
	e := entry{
		Number: c.Sequence, ID: c.RequestID, Started: c.Started.UnixMicro(), Status: c.Status, Code: c.Code, Gone: c.Gone,
		Service: c.Service.String(), Door: c.Door.String(), Model: c.Model, Asked: c.Asked, Instance: c.Instance, Strategy: c.Strategy,
		Key: c.KeyID, Tenant: c.Tenant, User: c.User, Streamed: c.Streamed, Cost: int64(c.Cost), Routed: c.Routed, Result: c.Result.String(),
		Ready: c.Ready.Microseconds(), Limited: c.Limited.Microseconds(), FirstByte: c.FirstByte.Microseconds(), FirstToken: c.FirstToken.Microseconds(),
		Ended: c.Ended.Microseconds(), PerToken: c.PerToken.Microseconds(), Queued: c.Queued.Microseconds(), Upstream: c.Upstream.Microseconds(), Held: c.Held.Microseconds(),
		Cache: c.Cache.String(), Class: c.Class.String(), Fallbacks: c.Fallbacks, Pieces: c.Pieces, Resumed: c.Resumed, Hedge: c.Hedge.String(), Attempts: c.Attempts,
	}
	if told := c.Told; told != nil {
		e.Message, e.Of = told.Message, told.Of
		if !told.Until.IsZero() {
			e.Until = told.Until.UnixMicro()
		}
	}
	if c.Strategy != "" {
		e.Candidates = c.Candidates[:]
	}
	if c.Client.IsValid() {
		e.Client = c.Client.String()
	}
	if u := c.Usage; u.Known {
		e.Tokens = &entryTokens{u.Prompt, u.Completion, u.Total, u.Cached}
	}
	if c.Traced() {
		e.Trace = hex.EncodeToString(c.Trace.ID[:])
	}
	for _, t := range c.Described() {
		e.Tries = append(e.Tries, entryTry{
			t.Instance, t.Adapter, t.Began.Microseconds(), t.Sent.Microseconds(), t.FirstByte.Microseconds(), t.Ended.Microseconds(),
			t.Expected.Microseconds(), t.Matched, t.Reused, t.Status, t.Code, t.Cause, t.Text, t.Resumed,
		})
	}
	line, err := json.Marshal(&e, jsontext.AllowInvalidUTF8(true))
	if err != nil {
		return to, fmt.Errorf("a call cannot be written: %w", err)
	}
	return append(append(to, line...), '\n'), nil
}

// readRecord reads the line of a record.
func readRecord(line []byte) (*calls.Record, error) {
	var e entry
	if err := json.Unmarshal(line, &e); err != nil {
		return nil, err
	}
	c := &calls.Record{
		Sequence: e.Number, RequestID: e.ID, Started: time.UnixMicro(e.Started), Status: e.Status, Code: e.Code, Gone: e.Gone, Unified: true,
		Service: byName[schema.ServiceType](schema.ServiceTypeCount, e.Service), Door: byName[schema.Door](len(schema.Door(0).Names()), e.Door),
		Model: e.Model, Asked: e.Asked, Instance: e.Instance, Strategy: e.Strategy, KeyID: e.Key, Tenant: e.Tenant, User: e.User,
		Streamed: e.Streamed, Cost: prices.Amount(e.Cost), Routed: e.Routed, Result: byName[schema.Result](schema.ResultCount, e.Result),
		Ready: duration(e.Ready), Limited: duration(e.Limited), FirstByte: duration(e.FirstByte), FirstToken: duration(e.FirstToken), Ended: duration(e.Ended),
		PerToken: duration(e.PerToken), Queued: duration(e.Queued), Upstream: duration(e.Upstream), Held: duration(e.Held),
		Cache: byName[metrics.Cached](metrics.CachedCount, e.Cache), Class: byName[schema.Class](schema.ClassCount, e.Class),
		Fallbacks: e.Fallbacks, Pieces: e.Pieces, Resumed: e.Resumed, Hedge: byName[metrics.Hedged](metrics.HedgedCount, e.Hedge),
	}
	copy(c.Candidates[:], e.Candidates)
	if e.Message != "" {
		c.Told = &calls.Told{Message: e.Message, Of: e.Of}
		if e.Until != 0 {
			c.Told.Until = time.UnixMicro(e.Until)
		}
	}
	if addr, err := netip.ParseAddr(e.Client); err == nil {
		c.Client = addr
	}
	if u := e.Tokens; u != nil {
		c.Usage = schema.Usage{Known: true, Prompt: u.Prompt, Completion: u.Completion, Total: u.Total, Cached: u.Cached}
	}
	if id, err := hex.DecodeString(e.Trace); err == nil && len(id) == len(c.Trace.ID) {
		copy(c.Trace.ID[:], id)
	}
	tries := make([]calls.Try, 0, len(e.Tries))
	for _, t := range e.Tries {
		tries = append(tries, calls.Try{
			Instance: t.Instance, Adapter: t.Adapter, Began: duration(t.Began), Sent: duration(t.Sent), FirstByte: duration(t.FirstByte), Ended: duration(t.Ended),
			Expected: duration(t.Expected), Matched: t.Matched, Reused: t.Reused, Status: t.Status, Code: t.Code, Cause: t.Cause, Text: t.Text, Resumed: t.Resumed,
		})
	}
	c.Restore(max(e.Attempts, len(tries)), tries)
	return c, nil
}

func duration(microseconds int64) time.Duration {
	return time.Duration(microseconds) * time.Microsecond
}

// byName returns the value of a name among the first count, or the first one.
func byName[T interface {
	~uint8
	String() string
}](count int, name string) T {
	for n := range count {
		if T(n).String() == name {
			return T(n)
		}
	}
	return T(0)
}
