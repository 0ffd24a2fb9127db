package monitor

import (
	"errors"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/patchbay-ai/patchbay/internal/access"
	"github.com/patchbay-ai/patchbay/internal/plain/say"
	"github.com/patchbay-ai/patchbay/internal/see/calls"
	"github.com/patchbay-ai/patchbay/internal/serve/live"
	"github.com/patchbay-ai/patchbay/internal/serve/web"
)

// The topics of the live feed, which are also the names of its events.
const (
	topicSnapshot = "snapshot"
	topicChange   = "change"
	topicCall     = "call"
	eventDropped  = "dropped"
)

// maxCallRate is the greatest number of calls that a reader of the live feed gets in a
// second. A page cannot show more, and a browser must not choke on them.
const maxCallRate = 250

// liveQuery chooses the topics of the live feed.
type liveQuery struct {
	Topics      string `json:"topics" pattern:"^(|(snapshot|change|call)(,(snapshot|change|call))*)$"`
	Brief       bool   `json:"brief" doc:"true: calls as in a brief list of calls."`
	LastEventID string `json:"lastEventId" doc:"As the header Last-Event-ID, for clients that cannot set it."`
}

// Docs says more about some members than a tag has room for.
func (liveQuery) Docs() map[string]string {
	return map[string]string{
		"topics": "Those wanted, with commas between them; all that the caller may read if left out.",
	}
}

// liveEvents are the data of the events of the live feed, by the names of the
// events.
type liveEvents struct {
	Snapshot *liveSnapshot `json:"snapshot,omitzero" doc:"The state of everything, once a second."`
	Change   *live.Change  `json:"change,omitzero" doc:"A change of state, at once."`
	Call     *CallView     `json:"call,omitzero" doc:"A call that has ended and was recorded."`
	Dropped  *dropped      `json:"dropped,omitzero" doc:"How many events of a topic were left out."`
}

// dropped tells a reader of the live feed how many events it missed.
type dropped struct {
	Topic string `json:"topic" enum:"change,call"`
	Count int64  `json:"count"`
}

// topicsOf returns the topics that a reader of the live feed gets.
func topicsOf(names string, role access.Role) ([]string, error) {
	if names == "" {
		topics := []string{topicSnapshot, topicChange}
		if role.Holds(access.ReadMetrics) {
			topics = append(topics, topicCall)
		}
		return topics, nil
	}
	topics := strings.Split(names, ",")
	for _, topic := range topics {
		if topic != topicSnapshot && topic != topicChange && topic != topicCall {
			return nil, web.BadInput("topics", "field.topics")
		}
	}
	return topics, nil
}

// live serves the live feed.
func (a *API) live(w http.ResponseWriter, r *http.Request) {
	var q liveQuery
	role := web.IdentityOf(r).Role
	err := web.ReadQuery(r, &q)
	var topics []string
	if err == nil {
		topics, err = topicsOf(q.Topics, role)
	}
	if err != nil {
		fail(w, r, err)
		return
	}
	if slices.Contains(topics, topicCall) && !role.Holds(access.ReadMetrics) {
		web.Refuse(w, http.StatusForbidden, say.New("manage.topic", "role", role, "permission", access.ReadMetrics))
		return
	}
	last, isKnown := a.parseEventID(r)
	options := live.ReaderOptions{Snapshots: slices.Contains(topics, topicSnapshot),
		Changes: slices.Contains(topics, topicChange)}
	if isKnown {
		options.After = &last.change
	}
	options.Words = role.SeesWords()
	s := &liveStream{api: a, events: newEventStream(w), words: web.WordingFor(role), isBrief: q.Brief}
	if slices.Contains(topics, topicCall) {
		if s.calls, err = a.Recorder.Follow(); err != nil {
			failFeed(w, err)
			return
		}
		defer s.calls.Close()
		if s.lastCall = a.latestCall(); isKnown {
			s.lastCall = min(last.call, s.lastCall)
		}
	}
	if s.reader, err = a.feed.Read(options); err != nil {
		failFeed(w, err)
		return
	}
	defer s.reader.Close()
	s.lastChange = *s.reader.After
	s.run(r, isKnown)
}

// failFeed says why a feed cannot be read, as the gate would.
func failFeed(w http.ResponseWriter, err error) {
	status := http.StatusServiceUnavailable
	if errors.Is(err, calls.ErrSubscribers) || errors.Is(err, live.ErrReaders) {
		status = http.StatusTooManyRequests
		w.Header().Set("Retry-After", "5")
	}
	web.Refuse(w, status, say.New("manage.live", "why", err))
}

// latestCall returns the number of the call that was recorded last.
func (a *API) latestCall() uint64 {
	for c := range a.Recorder.Calls() {
		return c.Sequence
	}
	return 0
}

// eventID is the position of a reader in the live feed.
type eventID struct{ change, call uint64 }

// parseEventID returns the last event that the reader had. False means that it had none of
// this run of the gateway.
func (a *API) parseEventID(r *http.Request) (id eventID, known bool) {
	text := r.Header.Get("Last-Event-ID")
	if text == "" {
		text = r.URL.Query().Get("lastEventId")
	}
	run, rest, _ := strings.Cut(text, "-")
	change, call, _ := strings.Cut(rest, "-")
	var err1, err2 error
	id.change, err1 = strconv.ParseUint(change, 36, 64)
	id.call, err2 = strconv.ParseUint(call, 36, 64)
	return id, run == a.run() && err1 == nil && err2 == nil
}

// run names this run of the gateway: numbers of another one mean nothing here.
func (a *API) run() string { return strconv.FormatInt(a.sampler.StartedAt().UnixMicro(), 36) }

// liveStream is the connection of one reader of the live feed.
type liveStream struct {
	api    *API
	events *eventStream
	reader *live.Reader
	calls  *calls.Cursor // nil where the reader wants none
	// isBrief says that calls are sent in short.
	isBrief bool
	words   web.Wording

	lastChange uint64 // the number of the change that was sent last
	lastCall   uint64 // the same of calls
	second     int64
	sent       int   // calls that were sent in this second
	leftOut    int64 // calls that were not sent, and not told yet
}

// run writes events until the reader leaves or the gateway stops.
func (s *liveStream) run(r *http.Request, resumes bool) {
	s.events.begin()
	s.events.write("retry: 1000\n\n")
	if s.reader.Snapshots {
		s.send(topicSnapshot, s.api.renderSnapshot(time.Now(), s.reader.Words))
	}
	if s.calls != nil && resumes {
		s.resumeCalls()
	}
	var recorded <-chan struct{}
	if s.calls != nil {
		recorded = s.calls.Ready()
	}
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for s.events.flush() {
		select {
		case <-r.Context().Done():
			return
		case <-s.reader.Ended():
			return
		case <-recorded:
			for call := range s.calls.Waiting() {
				s.sendCall(call)
				s.calls.Done(call.Sequence)
			}
			if s.calls.HasEnded() {
				return
			}
		case <-s.reader.Ready():
			s.sendNews()
		case now := <-tick.C:
			s.sendDropped()
			s.events.keepAlive(now)
		}
	}
}

// resumeCalls sends the calls that ended while the reader was away, as far as they
// are remembered.
func (s *liveStream) resumeCalls() {
	var missed []CallView
	oldest := s.lastCall + 1
	for c := range s.api.Recorder.Calls() {
		if c.Sequence <= s.lastCall || len(missed) == maxCallRate {
			break
		}
		oldest = c.Sequence
		missed = append(missed, viewOf(c, s.isBrief, s.words))
	}
	if oldest > s.lastCall+1 {
		s.leftOut += int64(oldest - s.lastCall - 1)
		s.sendDropped()
	}
	for _, call := range slices.Backward(missed) {
		s.lastCall = call.Number
		s.sendValue(topicCall, call)
	}
}

// sendCall sends a call that has ended.
func (s *liveStream) sendCall(c *calls.Record) {
	if c.Sequence <= s.lastCall {
		return // it was sent with the calls that ended while the reader was away
	}
	s.lastCall = c.Sequence
	if second := time.Now().Unix(); second != s.second {
		s.second, s.sent = second, 0
	}
	if s.sent++; s.sent > maxCallRate {
		s.leftOut++
		return
	}
	s.sendValue(topicCall, viewOf(c, s.isBrief, s.words))
}

func (s *liveStream) sendNews() {
	news := s.reader.News()
	if news.Missed > 0 {
		s.lastChange = news.Changes[0].Sequence - 1
		s.sendValue(eventDropped, dropped{topicChange, int64(news.Missed)})
	}
	for _, change := range news.Changes {
		s.lastChange = change.Sequence
		s.sendValue(topicChange, change)
	}
	if news.Snapshot != nil {
		s.send(topicSnapshot, news.Snapshot)
	}
}

// sendDropped sends the number of calls that were left out.
func (s *liveStream) sendDropped() {
	if s.calls != nil {
		s.leftOut += s.calls.Missed()
	}
	if s.leftOut > 0 {
		s.sendValue(eventDropped, dropped{topicCall, s.leftOut})
		s.leftOut = 0
	}
}

func (s *liveStream) sendValue(name string, value any) {
	if data, err := web.Encode(value); err == nil { // the values are made here and can be encoded
		s.send(name, data)
	}
}

func (s *liveStream) send(name string, data []byte) {
	id := s.api.run() + "-" + strconv.FormatUint(s.lastChange, 36) + "-" + strconv.FormatUint(s.lastCall, 36)
	s.events.write("id: " + id + "\nevent: " + name + "\ndata: ")
	s.events.write(string(data))
	s.events.write("\n\n")
}
