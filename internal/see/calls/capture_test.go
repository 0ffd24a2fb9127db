package calls

import (
	"bytes"
	"strings"
	"testing"
	"unsafe"

	"github.com/patchbay-ai/patchbay/internal/see/metrics"
)

func capturing(t *testing.T, change func(*metrics.Settings)) *Recorder {
	t.Helper()
	settings := metrics.DefaultSettings()
	settings.Capture = metrics.CaptureContent
	change(&settings)
	return NewRecorder(settings)
}

// finished records a call with a request and an answer of these texts, and returns what
// is kept of it.
func finished(t *testing.T, r *Recorder, request, answer string) *Captured {
	t.Helper()
	c := &Record{Unified: true, Routed: true, Captured: r.Capture()}
	if c.Captured != nil {
		c.Captured.SetHeaders([]Header{{Name: "Accept", Value: "*/*"}})
		c.Captured.AddRequest("application/json", []byte(request))
		c.Captured.AddAnswer("application/json", []byte(answer))
	}
	r.Finish(c)
	return latestCaptured(r)
}

func latestCaptured(r *Recorder) *Captured {
	for c := range r.Calls() {
		return r.Captured(c)
	}
	return nil
}

func TestNothingIsCapturedUnlessItIsAskedFor(t *testing.T) {
	for name, change := range map[string]func(*metrics.Settings){
		"by default":              func(s *metrics.Settings) { s.Capture = metrics.DefaultSettings().Capture },
		"monitoring is off":       func(s *metrics.Settings) { s.Enabled = false },
		"no calls are recorded":   func(s *metrics.Settings) { s.EnabledCategories = []metrics.Category{metrics.CategorySystem} },
		"there is no recorder":    nil,
		"capture is none":         func(s *metrics.Settings) { s.Capture = metrics.CaptureNone },
		"the category is missing": func(s *metrics.Settings) { s.EnabledCategories = nil },
	} {
		t.Run(name, func(t *testing.T) {
			var r *Recorder
			if change != nil {
				r = capturing(t, change)
			}
			if got := r.Capture(); got != nil {
				t.Errorf("captured with %v", got.What)
			}
			if n := testing.AllocsPerRun(100, func() { r.Capture() }); n != 0 {
				t.Errorf("asking allocates %v times", n)
			}
		})
	}
}

func TestHeadersWithoutContents(t *testing.T) {
	r := capturing(t, func(s *metrics.Settings) { s.Capture = metrics.CaptureHeaders })
	kept := finished(t, r, "secret prompt", "secret answer")
	if kept == nil || len(kept.Headers) != 1 || kept.Request.Text != nil || kept.Request.Bytes != 0 || kept.Answer.Text != nil {
		t.Errorf("kept %+v", kept)
	}
}

func TestContentsAreCut(t *testing.T) {
	r := capturing(t, func(*metrics.Settings) {})
	sentence := "a few words, and " // no run of base64
	picture := strings.Repeat("iVBORw0KGgo/", 1000)
	for name, test := range map[string]struct {
		text, want string
		isCut      bool
	}{
		"short":              {sentence, sentence, false},
		"empty":              {"", "", false},
		"at the bound":       {strings.Repeat(".", maxContent), strings.Repeat(".", maxContent), false},
		"beyond the bound":   {strings.Repeat(".", maxContent+1), strings.Repeat(".", maxContent), true},
		"within a character": {strings.Repeat(".", maxContent-1) + "中", strings.Repeat(".", maxContent-1), true},
		"a picture":          {`{"url":"data:image/png;base64,` + picture + `","text":"what is it"}`, `{"url":"data:image/png;base64,` + picture[:runShown] + `[…12000 characters]","text":"what is it"}`, true},
		"a longish word":     {strings.Repeat("a", longestRun) + ".", strings.Repeat("a", longestRun) + ".", false},
	} {
		t.Run(name, func(t *testing.T) {
			for _, step := range []int{len(test.text) + 1, 7} {
				c := r.Capture()
				for rest := []byte(test.text); len(rest) > 0; {
					n := min(step, len(rest))
					c.AddAnswer("text/event-stream; charset=utf-8", rest[:n])
					rest = rest[n:]
				}
				if got := c.Answer.String(); got != test.want || c.Answer.IsCut != test.isCut || c.Answer.Bytes != int64(len(test.text)) {
					t.Errorf("in steps of %d: %d characters (cut: %v) of %d bytes; want %d characters (cut: %v)", step, len(got), c.Answer.IsCut, c.Answer.Bytes, len(test.want), test.isCut)
				}
				r.captures.release(c)
			}
		})
	}
}

func TestSoundsAndPicturesAreOnlyMeasured(t *testing.T) {
	r := capturing(t, func(*metrics.Settings) {})
	c := r.Capture()
	c.AddAnswer("audio/mpeg", make([]byte, 12345))
	if c.Answer.Bytes != 12345 || c.Answer.Type != "audio/mpeg" || c.Answer.Text != nil || c.Answer.IsCut {
		t.Errorf("%+v", c.Answer)
	}
}

// The room is for all together. What came first makes room, and requests that still run
// get nothing beyond it.
func TestContentsAreBoundedInTotal(t *testing.T) {
	r := capturing(t, func(*metrics.Settings) {})
	text := strings.Repeat(".", maxContent)
	most := maxCaptured / (2 * maxContent)
	for range most + 10 {
		finished(t, r, text, text)
		if used := r.captures.used; used > maxCaptured {
			t.Fatalf("%d bytes are held", used)
		}
	}
	kept, isOlder := 0, false
	for c := range r.Calls() {
		switch captured := r.Captured(c); {
		case captured == nil:
			isOlder = true
		case isOlder:
			t.Fatal("an older one was kept in place of a later one")
		default:
			kept++
		}
	}
	if kept < most-2 || kept > most {
		t.Errorf("%d of at most %d are kept", kept, most)
	}
	var running []*Captured
	for range 2*most + 5 {
		c := r.Capture()
		c.AddRequest("", bytes.Repeat([]byte("."), maxContent))
		running = append(running, c)
	}
	if last := running[len(running)-1]; !last.Request.IsCut || len(last.Request.Text) > 0 || latestCaptured(r) != nil {
		t.Errorf("a request was captured without room: %d bytes", len(last.Request.Text))
	}
	for _, c := range running {
		r.captures.release(c)
	}
	if used := r.captures.used; used != 0 {
		t.Errorf("%d bytes are still counted", used)
	}
}

func TestWhatIsNotRecordedGivesItsRoomBack(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*metrics.Settings)
		call   Record
		after  func(*Recorder)
	}{
		"not sampled":             {change: func(s *metrics.Settings) { s.Sampling = metrics.Sampling{Enabled: true} }},
		"left before it began":    {call: Record{Gone: true}},
		"no calls are remembered": {change: func(s *metrics.Settings) { s.Calls = 0 }, after: func(r *Recorder) { latestCaptured(r) }},
		"the cache is cleared":    {after: (*Recorder).ClearCache},
		"switched off meanwhile": {after: func(r *Recorder) {
			_ = r.Update(func(s *metrics.Settings) { s.Capture = metrics.CaptureNone })
			latestCaptured(r)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			r := capturing(t, func(s *metrics.Settings) {
				if test.change != nil {
					test.change(s)
				}
			})
			c := test.call
			c.Unified, c.Captured = true, r.Capture()
			c.Captured.AddRequest("", []byte("words"))
			r.Finish(&c)
			if test.after != nil {
				test.after(r)
			}
			if held := &r.captures; held.used != 0 || len(held.records) != 0 {
				t.Errorf("%d bytes of %d calls are held", held.used, len(held.records))
			}
		})
	}
}

func TestCapturedCallsAreForgottenWithTheirRecords(t *testing.T) {
	r := capturing(t, func(s *metrics.Settings) { s.Calls = 3 })
	for range 10 {
		finished(t, r, "words", "words")
	}
	if held := len(r.captures.records); held != 3 {
		t.Errorf("%d are held, and 3 calls remembered", held)
	}
}

func TestKeepingLessForgetsWhatWasKept(t *testing.T) {
	r := capturing(t, func(*metrics.Settings) {})
	finished(t, r, "words", "words")
	if err := r.Update(func(s *metrics.Settings) { s.Prefix = "other" }); err != nil || latestCaptured(r) == nil {
		t.Fatalf("another change forgets it (%v)", err)
	}
	if err := r.Update(func(s *metrics.Settings) { s.Capture = metrics.CaptureHeaders }); err != nil || latestCaptured(r) != nil {
		t.Errorf("contents are still there (%v)", err)
	}
	if kept := finished(t, r, "words", "words"); kept == nil || kept.Request.Text != nil {
		t.Errorf("kept %+v", kept)
	}
}

// Readers other than those of Captured never see it.
func TestRecordsAreReadWithoutWhatIsCaptured(t *testing.T) {
	r := capturing(t, func(*metrics.Settings) {})
	feed, err := r.Subscribe()
	if err != nil {
		t.Fatal(err)
	}
	finished(t, r, "words", "words")
	got := 0
	for c := range feed.Waiting() {
		if got++; c.Captured != nil {
			t.Error("a subscriber gets it")
		}
	}
	if got != 1 {
		t.Errorf("a subscriber got %d calls", got)
	}
	for c := range r.Calls() {
		if c.Captured != nil {
			t.Error("the list has it")
		}
	}
}

// The type of a body is a part of the head of a request, or of a backend's answer, which
// must not be kept with it.
func TestCapturedTypesAreTextsOfTheirOwn(t *testing.T) {
	t.Parallel()
	head := "content-type: application/json; and so on"
	contentType := head[len("content-type: "):]
	captured := capturing(t, func(*metrics.Settings) {}).Capture()
	captured.AddRequest(contentType, []byte("{}"))
	captured.AddAnswer(contentType, []byte("{"))
	captured.AddAnswer(contentType, []byte("}"))
	for _, kept := range []string{captured.Request.Type, captured.Answer.Type} {
		if kept != contentType || unsafe.StringData(kept) == unsafe.StringData(contentType) {
			t.Errorf("%q is a part of the head", kept)
		}
	}
}
