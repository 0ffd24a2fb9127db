package loops

import (
	"slices"
	"time"

	"github.com/patchbay-ai/patchbay/internal/request/schema"
	"github.com/patchbay-ai/patchbay/internal/wings/runs/turns"
)

// Rule is a way to go round in circles.
type Rule = schema.Choice[rule]

type rule struct{}

func (rule) Names() []string {
	return []string{"SAME_CALL", "SAME_RESULT", "ALTERNATING", "ERRORS", "NO_OUTPUT"}
}

// The rules.
const (
	SameCall Rule = iota
	SameResult
	Alternating
	Errors
	NoOutput
)

// Finding tells that a call goes round in circles.
type Finding struct {
	Rule   Rule   `json:"rule"`
	Action Action `json:"action"`
	// Turns are the numbers of the calls that made it so, counted from 1 in the run, the last ones
	// where there are many.
	Turns []int `json:"turns"`
	// Count is how many there are.
	Count int `json:"count"`
	// Wait is how long the call is to wait; 0 unless the action is Slow.
	Wait time.Duration `json:"-"`
}

// Watch remembers the last turns of one run. The zero value is ready. Its user sees to it that
// only one goroutine uses it at a time.
type Watch struct {
	turn   int
	bodies streak
	// isFailed says that the last call with the last body failed; the same body is then sent again
	// by right.
	isFailed bool
	steps    lane
	// lanes have the steps of agents in a run with sub-agents, which work at the same time.
	lanes []lane

	errors []int // the turns of errors in a row, the last ones
	failed int   // how many there are
	quiet  []int // the turns without output in a row
	silent int
	input  int64 // of the last turn
}

// lane has the steps of one agent.
type lane struct {
	agent turns.Print
	body  turns.Print // the last one
	steps streak
}

// mostLanes is how many sub-agents at once have lanes of their own.
const mostLanes = 8

// Next tells of a call before it leaves, and returns what it means by the settings; false says that
// it is all right.
func (w *Watch) Next(s *Settings, t turns.Turn) (Finding, bool) {
	if s.Repeats == 0 {
		return Finding{}, false
	}
	w.turn++
	isRetry := w.isFailed && t.Body == w.bodies.last
	w.isFailed = false
	if isRetry {
		return w.trouble(s)
	}
	w.bodies.add(t.Body, w.turn)
	if f, found := w.bodies.judge(s, SameCall); found {
		return f, true
	}
	if f, found := w.steps.judge(s, t, w.turn); found {
		return f, true
	}
	if t.Agent != 0 || len(w.lanes) > 0 {
		if f, found := w.laneOf(t.Agent).judge(s, t, w.turn); found {
			return f, true
		}
	}
	return w.trouble(s)
}

// laneOf returns the lane of an agent, which is then the last one. The one that was unused for
// the longest time gives way to a new one.
func (w *Watch) laneOf(agent turns.Print) *lane {
	at := slices.IndexFunc(w.lanes, func(l lane) bool { return l.agent == agent })
	used := lane{agent: agent}
	switch {
	case at >= 0:
		used = w.lanes[at]
		w.lanes = slices.Delete(w.lanes, at, at+1)
	case len(w.lanes) >= mostLanes:
		w.lanes = slices.Delete(w.lanes, 0, 1)
	}
	w.lanes = append(w.lanes, used)
	return &w.lanes[len(w.lanes)-1]
}

// judge adds the step of a turn. A body that comes again at once is the same turn.
func (l *lane) judge(s *Settings, t turns.Turn, turn int) (Finding, bool) {
	isNew := t.Body != l.body
	l.body = t.Body
	if !isNew || t.Step == 0 {
		return Finding{}, false
	}
	l.steps.add(t.Step, turn)
	return l.steps.judge(s, SameResult)
}

// trouble judges the ends of the calls before.
func (w *Watch) trouble(s *Settings) (Finding, bool) {
	if w.failed >= mostErrors {
		return found(Errors, s.Action, w.errors, w.failed, mostErrors), true
	}
	if w.silent >= mostSilent {
		return found(NoOutput, s.Action, w.quiet, w.silent, mostSilent), true
	}
	return Finding{}, false
}

// leastOutput is how many tokens are an output. Answers without content have one or two.
const leastOutput = 3

// Ended tells how a call ended: whether it failed, and how many tokens went in and came out, 0 for
// unknown numbers. A call that the gateway refused, or that the client gave up, has not ended.
func (w *Watch) Ended(t turns.Turn, failed bool, input, output int64) {
	if t.Body == w.bodies.last {
		w.isFailed = failed
	}
	if failed {
		w.failed++
		w.errors = appendTurn(w.errors, w.turn, w.failed)
		return
	}
	w.failed, w.errors = 0, w.errors[:0]
	if input > w.input && w.input > 0 && output < leastOutput {
		w.silent++
		w.quiet = appendTurn(w.quiet, w.turn, w.silent)
	} else {
		w.silent, w.quiet = 0, w.quiet[:0]
	}
	w.input = input
}

// Clear forgets all turns but their number.
func (w *Watch) Clear() { *w = Watch{turn: w.turn} }

// streak counts how often a print came in a row, and how long it takes turns with another one.
type streak struct {
	last, other     turns.Print
	same, alternate int
	turns           []int // of the longer of both, the last ones
}

func (s *streak) add(p turns.Print, turn int) {
	switch {
	case p == s.last:
		s.same++
		s.alternate = 1
	case s.last == 0:
		s.same, s.alternate = 1, 1
	default:
		s.same = 1
		if p == s.other {
			s.alternate++
		} else {
			s.alternate = 2
		}
		s.other = s.last
	}
	s.last = p
	s.turns = appendTurn(s.turns, turn, max(s.same, s.alternate))
}

// judge returns what the streak means. Two that alternate are no more than a pair of calls that
// go together until there are twice as many.
func (s *streak) judge(by *Settings, same Rule) (Finding, bool) {
	if s.same >= by.Repeats {
		return found(same, by.Action, s.turns, s.same, by.Repeats), true
	}
	if s.alternate >= 2*by.Repeats {
		return found(Alternating, by.Action, s.turns, s.alternate, 2*by.Repeats), true
	}
	return Finding{}, false
}

const (
	// mostTurns is how many turns a finding names.
	mostTurns = 32
	// longestWait bounds the wait of a call.
	longestWait = 30 * time.Second
)

// found returns the finding of a rule with its turns.
func found(rule Rule, action Action, turns []int, count, threshold int) Finding {
	f := Finding{Rule: rule, Action: action, Turns: slices.Clone(turns), Count: count}
	if action == Slow {
		f.Wait = min(time.Duration(count-threshold+1)*time.Second, longestWait)
	}
	return f
}

// appendTurn adds a turn to a list of the last ones, of which so many belong together.
func appendTurn(list []int, turn, together int) []int {
	list = append(list, turn)
	if more := len(list) - min(together, mostTurns); more > 0 {
		list = slices.Delete(list, 0, more)
	}
	return list
}
