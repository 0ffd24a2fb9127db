// Package batches runs the requests of files, line by line, in slots that nobody else needs.
//
// A batch is a document; its lines are a file. The lines are divided into chunks. A gateway
// leases a chunk before it runs its lines. An answer is written to a journal and synced
// before its line counts as done: a crash loses no line, and no line with a synced answer
// runs again. When all lines are done their answers become files.
package batches

import (
	"errors"
	"time"

	"github.com/patchbay-ai/patchbay/internal/plain/say"
	"github.com/patchbay-ai/patchbay/internal/request/prices"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
	"github.com/patchbay-ai/patchbay/internal/wings/batches/files"
)

// State is the progress of a batch.
type State string

// The states. The last four are ends.
const (
	Validating State = "validating"
	InProgress State = "in_progress"
	Finalizing State = "finalizing"
	Cancelling State = "cancelling"
	Completed  State = "completed"
	Failed     State = "failed"
	Expired    State = "expired"
	Cancelled  State = "cancelled"
)

// IsEnd reports whether nothing happens to a batch in the state any more.
func (s State) IsEnd() bool {
	return s == Completed || s == Failed || s == Expired || s == Cancelled
}

// Form is the API that gives the results of a batch their shape.
type Form string

// The forms.
const (
	OpenAI    Form = "openai"
	Anthropic Form = "anthropic"
)

// Fault is a reason why a batch failed, or stopped.
type Fault struct {
	Code  string       `json:"code"`
	Said  say.Sentence `json:"sentence"`
	Param string       `json:"param,omitzero"`
	// Line is the number of the line in the file, from 1; 0 where none is at fault.
	Line int `json:"line,omitzero"`
}

// NewFault returns a fault with a sentence.
func NewFault(code, param string, said say.Sentence) Fault {
	return Fault{Code: code, Said: said, Param: param}
}

// Counts are the lines of a batch by their outcome, and their usage.
type Counts struct {
	Done   int `json:"done,omitzero"`   // with an answer
	Failed int `json:"failed,omitzero"` // with an error
	// Prompt and Completion are tokens, and Cost is in the unit of package prices.
	Prompt     int64 `json:"prompt,omitzero"`
	Completion int64 `json:"completion,omitzero"`
	Cost       int64 `json:"cost,omitzero"`
}

func (c Counts) plus(other Counts) Counts {
	return Counts{c.Done + other.Done, c.Failed + other.Failed, c.Prompt + other.Prompt,
		c.Completion + other.Completion, int64(prices.Amount(c.Cost).Plus(prices.Amount(other.Cost)))}
}

// Batch is a file of requests and its progress.
type Batch struct {
	ID    string      `json:"id"`
	Owner files.Owner `json:"owner"`
	Form  Form        `json:"form"`
	// Endpoint is the path that all lines go to.
	Endpoint string `json:"endpoint"`
	// Input is the file of the lines, which belongs to the batch alone in the form of Anthropic.
	Input string `json:"input"`
	// Window is the time that it may take, as its owner wrote it.
	Window   string            `json:"window,omitzero"`
	Metadata map[string]string `json:"metadata,omitzero"`
	State    State             `json:"state"`
	// KeepResults is how long the files of results are kept; 0 is as long as other files.
	KeepResults schema.Duration `json:"keepResults,omitzero"`

	Created    time.Time `json:"created"`
	Expires    time.Time `json:"expires"`
	Started    time.Time `json:"started,omitzero"`    // when the lines had been checked
	Finalizing time.Time `json:"finalizing,omitzero"` // when the last line had ended
	Cancelling time.Time `json:"cancelling,omitzero"` // when somebody wanted it to stop
	Ended      time.Time `json:"ended,omitzero"`

	// Faults are the reasons why it failed, or was stopped.
	Faults []Fault `json:"faults,omitzero"`
	// Lines is the number of lines, ChunkLines the number in a chunk, and Chunks the offset
	// of each chunk in the file.
	Lines      int     `json:"lines,omitzero"`
	ChunkLines int     `json:"chunkLines,omitzero"`
	Chunks     []int64 `json:"chunks,omitzero"`
	// User is the user that it was made for, from a header that the key trusts.
	User string `json:"user,omitzero"`
	// Models are the models of its lines that were served at some time since it was made.
	Models []string `json:"models,omitzero"`
	// Counts are final once the batch has ended.
	Counts Counts `json:"counts,omitzero"`
	// Output and Errors are the files of results, empty where there are none.
	Output string `json:"output,omitzero"`
	Errors string `json:"errors,omitzero"`

	version int64 // of the document
}

// Progress is a batch and how far it is now.
type Progress struct {
	Batch
	// Rate is how many lines ended in a minute, on average, and End is when the last one is
	// expected to end; zero where nothing is known.
	Rate float64
	End  time.Time
	// Problem is why no line runs now; it says nothing where nothing is wrong.
	Problem say.Sentence
}

// Errors of an Engine.
var (
	// ErrNotFound means that there is no such batch, or that others own it.
	ErrNotFound = errors.New("no such batch")
	// ErrTooMany means that the owner has as many batches as allowed.
	ErrTooMany = errors.New("there are too many batches that have not ended")
	// ErrEnded means that the batch has ended and cannot be stopped.
	ErrEnded = errors.New("the batch has ended")
	// ErrNotEnded means that the batch has not ended and cannot be deleted.
	ErrNotEnded = errors.New("the batch has not ended")
)
