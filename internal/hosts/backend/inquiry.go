package backend

import (
	"context"
	"log/slog"
	"net/http"
	"slices"
	"time"

	"github.com/patchbay-ai/patchbay/internal/dialect"
	"github.com/patchbay-ai/patchbay/internal/dialect/engines"
	"github.com/patchbay-ai/patchbay/internal/hosts/fleet"
	"github.com/patchbay-ai/patchbay/internal/hosts/transport"
	"github.com/patchbay-ai/patchbay/internal/see/logs"
)

const (
	// inquireEvery is the interval between questions to an engine with requests of this
	// gateway: queues change within seconds, and an answer costs the engine some
	// milliseconds.
	inquireEvery = 2 * time.Second
	// inquiriesPerSecond is how many engines are asked in a second at most. Where more are
	// in use, each is asked less often.
	inquiriesPerSecond = 25
	// maxInquiries is how many engines are asked at a time.
	maxInquiries = 8
	// firstSilence is the pause after a question without an answer. After a refusal it
	// doubles up to lastSilence: most engines that do not know a question never will.
	firstSilence = 10 * time.Second
	lastSilence  = time.Hour
)

// inquiry asks the engine behind a group for more than its health, if one of the
// instances is balanced by the state of its engine. The answers are for all models
// there.
type inquiry struct {
	host      *fleet.Host // nil if nobody wants to know
	teller    *Instance   // the instance with the credentials that are sent
	questions []*question
	isAdapted bool // LoRA adapters are asked for
	isAlive   bool // by the latest check
	isEmpty   bool // it was found to have lost its memory, and was not alive since
	isChecked bool // a check has ended since it was asked last
	isRunning bool
	due       time.Time // when it is asked again if it is in use
	calls     int64     // of this gateway, when it was asked last
}

// question is a question to one engine.
type question struct {
	engines.Question
	path    string
	process engines.Process
	silence time.Duration // after it was refused, else 0
	after   time.Time     // when it may be asked again
}

// follow directs the inquiry to the engine of the group's instances.
func (q *inquiry) follow(members []*member) {
	isAdapted := slices.ContainsFunc(members, func(m *member) bool { return m.instance.Settings.LoRA != nil })
	for _, m := range members {
		engine := m.instance.Engine()
		if engine == nil {
			continue
		}
		if q.host != engine.Host() || q.teller.Kind != m.instance.Kind || q.isAdapted != isAdapted {
			q.questions = questionsTo(m.instance, isAdapted)
		}
		q.host, q.teller, q.isAdapted = engine.Host(), m.instance, isAdapted
		return
	}
	q.host, q.teller, q.questions = nil, nil, nil
}

func questionsTo(i *Instance, isAdapted bool) []*question {
	var all []*question
	for _, one := range i.Kind.Tells {
		if one.IsOfMemory && i.process != nil || one.IsOfAdapters && !isAdapted {
			continue // the process itself is in memory
		}
		path := i.Kind.HealthPath(dialect.Endpoint{BaseURL: i.Settings.BaseURL, HealthPath: one.Path})
		all = append(all, &question{Question: one, path: path})
	}
	return all
}

// forget forgets which process answered, and which questions were not answered.
func (q *inquiry) forget() {
	for _, one := range q.questions {
		one.process, one.silence, one.after = engines.Process{}, 0, time.Time{}
	}
}

// check takes the result of a check. An engine that refuses connections is gone, and one
// that loads its model has just been started: either way its memory is empty.
func (q *inquiry) check(r probeResult) {
	if r.finding == nothing || q.host == nil {
		return
	}
	q.isAlive = r.finding == alive || r.finding == contradicted
	q.isChecked = q.isAlive
	isGone := r.finding == loading || r.finding == dead && r.cause == transport.CauseRefused
	if isGone && !q.isEmpty {
		q.host.Lost()
		q.forget()
	}
	q.isEmpty = isGone || q.isEmpty && !q.isAlive
}

// isInUse reports whether the engine has calls of this gateway, or had some since it was
// asked last.
func (q *inquiry) isInUse(members []*member) bool {
	calls := int64(0)
	for _, m := range members {
		if m.instance.InFlight() > 0 {
			return true
		}
		calls += m.instance.Calls()
	}
	return calls != q.calls
}

// next returns the questions that are to be asked now.
func (q *inquiry) next(members []*member, now time.Time) []*question {
	if q.isRunning || !q.isAlive || len(q.questions) == 0 {
		return nil
	}
	isBusy := (q.isChecked || !q.due.After(now)) && q.isInUse(members)
	var asked []*question
	for _, one := range q.questions {
		if (q.isChecked && one.Idle || isBusy && one.Busy) && !one.after.After(now) {
			asked = append(asked, one)
		}
	}
	q.isChecked = q.isChecked && len(asked) > 0
	return asked
}

// told is the answer of an engine to an inquiry.
type told struct {
	group   *group
	asked   time.Time
	answers []answered
}

// answered is the answer to one question.
type answered struct {
	*question
	report  engines.Report
	outcome outcome
}

// outcome is the fate of a question.
type outcome uint8

const (
	unanswered outcome = iota // in time, or at all
	refused                   // the engine does not know the question, or said something else
	understood
)

// inquire asks the engines that are due.
func (w *checkerRun) inquire(ctx context.Context, now time.Time) {
	for _, g := range w.groups {
		if w.inquiries == maxInquiries {
			return
		}
		questions := g.inquiry.next(g.members, now)
		if len(questions) == 0 {
			continue
		}
		q := &g.inquiry
		q.isRunning, q.isChecked, q.calls = true, false, 0
		for _, m := range g.members {
			q.calls += m.instance.Calls()
		}
		q.due = now.Add(jitter(max(inquireEvery, time.Duration(w.tellers)*time.Second/inquiriesPerSecond)))
		w.inquiries++
		bounded, cancel := context.WithTimeout(ctx, min(g.timeout, inquireEvery))
		to, teller, about := g.origin, q.teller, w.models[q.host]
		w.probes.Go(func() {
			defer cancel()
			t := told{group: g, asked: now}
			logs.Contain(w.Log, "asking an engine", func() {
				for _, one := range questions {
					if bounded.Err() != nil {
						break
					}
					report, outcome := w.prober.ask(bounded, to, one, teller.Target, about)
					t.answers = append(t.answers, answered{one, report, outcome})
				}
			})
			w.told <- t
		})
	}
}

// wake tells the health of members that their models are in memory.
func (g *group) wake(awake []string) {
	for _, m := range g.members {
		if engine := m.instance.Engine(); engine != nil && slices.Contains(awake, engine.Model()) {
			m.health.Awake()
		}
	}
}

// subjects are the models that a question is about, and the paths of LoRA adapters by their names.
type subjects struct {
	models   []string
	adapters map[string]string
}

// add adds a model, or the LoRA adapter that it is.
func (s *subjects) add(model string, lora *LoRA) {
	if lora == nil {
		s.models = append(s.models, model)
	} else if s.adapters == nil {
		s.adapters = map[string]string{lora.Name: lora.Path}
	} else {
		s.adapters[lora.Name] = lora.Path
	}
}

// ask asks an engine one question.
func (p *prober) ask(
	ctx context.Context, to transport.Origin, q *question, as *dialect.Target, about subjects,
) (engines.Report, outcome) {
	report := engines.NewReport()
	call, err := NewCall(ctx, as, http.MethodGet, q.path, "")
	if err != nil {
		return report, refused
	}
	response, err := p.client.Send(ctx, &to, call, transport.Timeouts{})
	if err != nil {
		return report, unanswered
	}
	defer func() { _ = response.Close() }()
	answer := engines.Answer{Body: response, ProcessStart: response.Header("Process-Start-Time-Unix"),
		Models: about.models, Adapters: about.adapters}
	switch {
	case response.Status >= http.StatusInternalServerError && response.Status != http.StatusNotImplemented:
		return report, unanswered
	case response.Status != http.StatusOK || !q.Read(&answer, &report):
		return report, refused
	case ctx.Err() != nil:
		return report, unanswered // half of an answer may say anything
	}
	return report, understood
}

// handleTold passes the answer of an engine on to the fleet. If a new process answers,
// the caches of the old one are gone.
func (w *checkerRun) handleTold(t told, now time.Time) {
	q := &t.group.inquiry
	q.isRunning = false
	w.inquiries--
	if q.host == nil || len(t.group.members) == 0 || q.isEmpty {
		return // it was removed, or has died meanwhile
	}
	all, isTold, isNew := engines.NewReport(), false, false
	for _, one := range t.answers {
		switch one.outcome {
		case unanswered:
			one.after = now.Add(firstSilence)
		case refused:
			one.silence = min(max(2*one.silence, firstSilence), lastSilence)
			one.after = now.Add(one.silence)
		case understood:
			one.silence = 0
			isNew = one.process.IsNew(&one.report, now) || isNew
			isTold = true
			all.Add(&one.report)
		}
	}
	if isNew {
		w.Log.LogAttrs(context.Background(), slog.LevelInfo, "engine was started anew, its cache is empty",
			slog.String("instance", q.teller.ID), slog.String("service", q.teller.Service.String()))
		q.host.Lost()
	}
	if isTold {
		q.host.Tell(fleet.Told{Waiting: all.Waiting, Running: all.Running, Used: all.Used, Capacity: all.Capacity}, now)
	}
	if all.TellsModels {
		t.group.wake(all.Awake)
		q.host.Has(fleet.Models{Awake: all.Awake, Asleep: all.Asleep, Loading: all.Loading, Bytes: all.Bytes}, t.asked)
	}
	if all.TellsAdapters {
		q.host.Has(fleet.Models{Awake: all.Adapters, AreAdapters: true}, t.asked)
	}
	if all.AdapterRoom > 0 {
		q.host.SetAdapterRoom(all.AdapterRoom)
	}
	if all.Room > 0 {
		q.host.SetRoom(all.Room)
	}
}
