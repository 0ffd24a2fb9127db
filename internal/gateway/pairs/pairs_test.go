package pairs_test

import (
	"errors"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"github.com/patchbay-ai/patchbay/internal/gateway/gatewaytest"
)

// pair names a cell.
type pair struct{ happening, door string }

// senseless are the cells without a meaning, with the reason.
var senseless = func() map[pair]string {
	all := map[pair]string{}
	add := func(happening, reason string, doors ...string) {
		for _, door := range doors {
			all[pair{happening, door}] = reason
		}
	}
	add("hedge", "of a stream a second call would have to be compared word by word; only whole answers are hedged",
		"stream", "messages", "responses", "responses over WebSocket", "realtime", "Ollama", "Gemini")
	add("hedge", "a batch has time, and second calls would take the slots of requests that have not", "batch line")
	add("resume", "the answer is no stream: what breaks is asked for again, which is the cell of the backend that dies",
		"chat", "completions", "embeddings", "transcription", "batch line")
	add("resume", "the conversation is in the memory of the backend that broke, and nobody else can go on with it", "realtime")
	add("target of the first token", "a conversation has many answers, and a record at its end", "realtime")
	add("usage without detail", "sound is not counted in tokens", "transcription")
	add("scatter", "the request has one input", "chat", "stream", "messages", "responses", "responses over WebSocket", "realtime", "completions", "Ollama", "Gemini",
		"transcription", "batch line")
	add("member for operators of engines", "a conversation is no request with members, and is passed on", "realtime")
	add("answer cache", "no two conversations are equal", "realtime")
	add("answer cache", "recordings are not compared", "transcription")
	add("answer cache in a run without money", "no two conversations are equal", "realtime")
	add("answer cache in a run without money", "recordings are not compared", "transcription")
	add("answer cache in a run without money", "all batches of a key are runs with the limit", "batch line")
	add("single flight", "no two conversations are equal", "realtime")
	add("single flight", "recordings are not compared", "transcription")
	add("client leaves", "nobody waits for a line; a batch that is cancelled lets the lines end that run", "batch line")
	add("client leaves while the model sleeps", "nobody waits for a line", "batch line")
	add("client leaves while the model sleeps", "the connection is not open before the model is awake", "realtime")
	return all
}()

// broken are the cells that do not hold yet, with what is wrong.
var broken = map[pair]string{}

// TestPairs tries what may happen to a request at every door. A feature that touches requests
// adds a row to happenings, and a door one to doors.
func TestPairs(t *testing.T) {
	t.Parallel()
	isMarked := os.Getenv(markedVariable) != ""
	for _, h := range happenings() {
		for _, d := range doors() {
			at := pair{h.name, d.name}
			if senseless[at] != "" {
				continue
			}
			t.Run(h.name+"/"+d.name, func(t *testing.T) {
				t.Parallel()
				if broken[at] != "" && !isMarked {
					stillBreaks(t)
					return
				}
				h.try(&cell{T: t, door: d})
			})
		}
	}
}

// markedVariable is set where a cell that does not hold is tried all the same.
const markedVariable = "PATCHBAY_TRY_MARKED_PAIRS"

// stillBreaks tries a cell in a process of its own, and fails if it holds.
func stillBreaks(t *testing.T) {
	t.Helper()
	var levels []string
	for level := range strings.SplitSeq(t.Name(), "/") {
		levels = append(levels, "^"+regexp.QuoteMeta(level)+"$")
	}
	again := exec.CommandContext(gatewaytest.Deadline(t), os.Args[0], "-test.run", strings.Join(levels, "/"))
	again.Env = append(os.Environ(), markedVariable+"=yes")
	out, err := again.CombinedOutput()
	var failed *exec.ExitError
	switch {
	case err == nil:
		t.Error("this pair holds now: take it out of broken")
	case !errors.As(err, &failed) || !strings.Contains(string(out), "--- FAIL: "+t.Name()):
		t.Fatalf("%v: %s", err, out)
	}
}

// TestMarksNameCells fails for marks of cells that are not there.
func TestMarksNameCells(t *testing.T) {
	t.Parallel()
	cells := map[pair]bool{}
	for _, h := range happenings() {
		for _, d := range doors() {
			cells[pair{h.name, d.name}] = true
		}
	}
	for _, marks := range []map[pair]string{senseless, broken} {
		for at := range marks {
			if !cells[at] {
				t.Errorf("there is no cell %v", at)
			}
		}
	}
}
