package governor

import (
	"strconv"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/patchbay-ai/patchbay/internal/count/budget"
	"github.com/patchbay-ai/patchbay/internal/plain/say"
	"github.com/patchbay-ai/patchbay/internal/request/prices"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
	"github.com/patchbay-ai/patchbay/internal/route/account"
	"github.com/patchbay-ai/patchbay/internal/see/calls"
	"github.com/patchbay-ai/patchbay/internal/wings/runs"
	"github.com/patchbay-ai/patchbay/internal/wings/runs/turns"
)

// turn is a request in its run.
type turn struct {
	governor *Governor
	run      *run
	record   *calls.Record
	// step is the request as rules about loops see it; isWatched says that they do.
	step      turns.Turn
	isWatched bool
}

var _ account.Turn = (*turn)(nil)

// Account is the account of the run.
func (t *turn) Account() *budget.Account {
	t.run.mu.Lock()
	defer t.run.mu.Unlock()
	return t.run.account
}

// Answers returns the latest answers of the run.
func (t *turn) Answers() *account.Answers {
	t.run.mu.Lock()
	defer t.run.mu.Unlock()
	return t.run.answers
}

// RefuseUnpriced refuses a model without a price in a run with a limit of money.
func (t *turn) RefuseUnpriced(model string) *schema.Error {
	if t.governor.options.Settings.Unpriced != runs.Refuse || !t.run.limitsCost() {
		return nil
	}
	return final(t.run, codeLimit, say.New("run.unpriced", "model", model))
}

// Confirm gives a run that begins its room, now that no limit refuses the request. It refuses the
// request if there is none, or if the run was ended meanwhile.
func (t *turn) Confirm() *schema.Error {
	now := time.Now()
	t.governor.mu.Lock()
	refusal := t.governor.seat(t.run, now)
	t.governor.mu.Unlock()
	if refusal == nil {
		refusal = t.governor.refuseEnded(t.run, now)
	}
	t.governor.note(t.run, refusal)
	return refusal
}

// Leave ends the turn.
func (t *turn) Leave(end account.End) {
	if end.Refusal != nil {
		t.governor.note(t.run, end.Refusal)
	}
	t.run.leave(t)
	defer t.governor.unpin(t.run)
	t.run.mu.Lock()
	defer t.run.mu.Unlock()
	if end.Model != "" {
		t.run.model = end.Model
	}
	failed, isEnded := t.outcome(end.Refusal)
	if isEnded && end.Output > 0 {
		if t.run.answers == nil {
			t.run.answers = new(account.Answers)
		}
		t.run.answers.Add(end.Output)
	}
	if t.isWatched && isEnded {
		t.run.watch.Ended(t.step, failed, end.Input, end.Output)
	}
}

// outcome reports whether the call failed at its backend, and false for a call that the gateway
// refused or that its client gave up.
func (t *turn) outcome(refusal *schema.Error) (failed, isEnded bool) {
	if refusal != nil || t.record.Gone || t.record.Code == schema.CodeStopped {
		return false, false
	}
	if t.record.Code == "" {
		return false, true
	}
	return true, !schema.ResultOf(t.record.Code).Rejected()
}

// heldRetryAfter is the wait that a caller is told while other requests of the run have
// reserved the rest.
const heldRetryAfter = 800 * time.Millisecond

// runDetails are the details of the error of a run without room for a request.
type runDetails struct {
	Run      string         `json:"run"`
	Unit     string         `json:"unit"`
	Used     jsontext.Value `json:"used"`
	Limit    jsontext.Value `json:"limit"`
	Reserved jsontext.Value `json:"reserved,omitzero"`
	// Wanted is how much the request would reserve.
	Wanted jsontext.Value `json:"wanted,omitzero"`
}

func seconds(d time.Duration) jsontext.Value {
	return strconv.AppendInt(nil, int64(d/time.Second), 10)
}

// held is the error of a request that finds room later.
func held(r *run, said say.Sentence) *schema.Error {
	refusal := schema.NewError(schema.CodeBudgetReserved, said)
	refusal.RetryAfter, refusal.Spread, refusal.Of = heldRetryAfter, true, r.of
	return refusal
}

// final is the error of a request of a run that nobody but people let go on.
func final(r *run, code string, said say.Sentence) *schema.Error {
	refusal := schema.NewError(code, said)
	refusal.NoRetry, refusal.Of = true, r.of
	refusal.Details = runDetails{Run: r.id}
	return refusal
}

// how says how people raise a run.
func (g *Governor) how(r *run, flag string) say.Sentence {
	command := "patchbay runs raise " + r.id
	if flag != "" {
		command += " " + flag
	}
	if g.options.PublicURL == "" {
		return say.New("run.raise", "command", command)
	}
	return say.New("run.raise_url", "url", g.options.PublicURL+"/runs?id="+r.id, "command", command)
}

// Refused returns the error of a request that wants more than its run has.
func (t *turn) Refused(refusal *budget.Refusal) *schema.Error {
	number := func(n int64) string { return strconv.FormatInt(n, 10) }
	told, unit := number, any(say.New(say.Code("budget."+refusal.UnitName())))
	if refusal.Unit == budget.Cost {
		number = func(n int64) string { return prices.Amount(n).String() }
		told, unit = func(n int64) string { return prices.Amount(n).Money() }, t.governor.options.Currency()
	}
	details := runDetails{
		Run: t.run.id, Unit: refusal.UnitName(), Used: jsontext.Value(number(refusal.Used)),
		Limit: jsontext.Value(number(refusal.Limit)), Reserved: jsontext.Value(number(refusal.Reserved)),
		Wanted: jsontext.Value(number(refusal.Wanted[refusal.Unit])),
	}
	var found *schema.Error
	if refusal.Held {
		found = held(t.run, say.New("run.held", "limit", told(refusal.Limit), "unit", unit, "used", told(refusal.Used),
			"reserved", told(refusal.Reserved)))
	} else {
		// The next call of a conversation is longer than the refused one.
		more := max(refusal.Limit, refusal.Used-refusal.Limit+refusal.Wanted[refusal.Unit]*3/2)
		flag := "--" + refusal.UnitName() + " " + number(more)
		found = final(t.run, codeLimit, say.New("run.limit", "used", told(refusal.Used),
			"limit", told(refusal.Limit), "unit", unit, "wanted", told(refusal.Wanted[refusal.Unit]),
			"how", t.governor.how(t.run, flag)))
	}
	found.Details = details
	return found
}

// The refusals that are counted, in the order of refusalCodes.
const refusalCount = 5

var refusalCodes = [refusalCount]string{codeLimit, codeLoops, codeEnded,
	schema.CodeBudgetReserved, codeTooMany}

// note counts a refusal and keeps one for good as the state of the run; nil says that a request was
// let in.
func (g *Governor) note(r *run, refusal *schema.Error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if refusal == nil {
		r.stopped = nil
		return
	}
	for i, code := range refusalCodes {
		if code == refusal.Code && refusal.Of == r.of {
			g.refused[i].Add(1)
		}
	}
	if refusal.NoRetry && refusal.Of == r.of {
		r.stopped = refusal
	}
}
