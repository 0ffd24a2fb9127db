package batches

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"errors"
	"io"
	"net/http"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/patchbay-ai/patchbay/internal/plain/say"
)

// line is one request of a batch.
type line struct {
	number   int // among the requests, from 0
	customID string
	body     []byte
	model    string
}

// errLongLine means that a line is longer than a request may be.
var errLongLine = errors.New("the line is longer than a request may be")

// lineReader reads the lines of a file, without the empty ones.
type lineReader struct {
	from  *bufio.Reader
	most  int
	at    int64 // where the next line begins
	place int   // of the line that was read last
	text  []byte
}

// newLineReader returns a reader that begins at an offset of the file. No line may be
// longer than most.
func newLineReader(from io.Reader, at int64, most int) *lineReader {
	return &lineReader{from: bufio.NewReaderSize(from, 64<<10), at: at, most: most}
}

// next returns the next line and where it begins, or io.EOF. The text is good until the next
// call. After errLongLine the reader goes on with the line that follows.
func (r *lineReader) next() (text []byte, begins int64, err error) {
	for {
		begins = r.at
		text, err = r.readLine()
		if err != nil && !errors.Is(err, errLongLine) {
			return nil, 0, err
		}
		r.place++
		if begins == 0 {
			text = bytes.TrimPrefix(text, []byte("\ufeff"))
		}
		if text = bytes.TrimSpace(text); len(text) > 0 || err != nil {
			return text, begins, err
		}
	}
}

func (r *lineReader) readLine() ([]byte, error) {
	r.text = r.text[:0]
	length := 0
	for {
		part, err := r.from.ReadSlice('\n')
		r.at += int64(len(part))
		if length += len(part); length <= r.most+2 { // with the end of the line
			r.text = append(r.text, part...)
		}
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
			continue
		case err == io.EOF && length > 0, err == nil:
			if length > r.most+2 {
				return nil, errLongLine
			}
			return r.text, nil
		default:
			return nil, err
		}
	}
}

// written is the JSON form of a line.
type written struct {
	CustomID *string        `json:"custom_id"`
	Method   string         `json:"method"`
	URL      string         `json:"url"`
	Body     jsontext.Value `json:"body"`
}

const longestID = 512

// parseLine reads a line of a batch for an endpoint.
func parseLine(text []byte, endpoint string) (line, *Fault) {
	fault := func(code, param string, said say.Sentence) (line, *Fault) {
		found := NewFault(code, param, said)
		return line{}, &found
	}
	invalid := func(code, param string, why say.Sentence) (line, *Fault) {
		return fault(code, param, say.New("call.field", "field", param, "why", why))
	}
	missing := func(param string) (line, *Fault) {
		return fault("missing_required_parameter", param, say.New("call.missing", "field", param))
	}
	var w written
	if err := json.Unmarshal(text, &w); err != nil {
		var syntax *jsontext.SyntacticError
		if errors.As(err, &syntax) {
			return fault("invalid_json_line", "", say.New("batch.not_json"))
		}
		return fault("invalid_request", "", say.New("batch.no_object"))
	}
	switch {
	case w.CustomID == nil || *w.CustomID == "":
		return missing("custom_id")
	case len(*w.CustomID) > longestID:
		return invalid("invalid_value", "custom_id", say.New("field.bytes", "most", longestID))
	case w.Method != http.MethodPost:
		return invalid("invalid_method", "method", say.New("value.post"))
	case w.URL != endpoint:
		return invalid("invalid_url", "url", say.New("value.endpoint", "endpoint", endpoint))
	case w.Body.Kind() != '{':
		return invalid("missing_required_parameter", "body", say.New("value.request"))
	}
	var asks struct {
		Model  jsontext.Value `json:"model"`
		Stream jsontext.Value `json:"stream"`
	}
	if err := json.Unmarshal(w.Body, &asks); err != nil {
		return fault("invalid_json_line", "body", say.New("batch.body_json"))
	}
	if string(asks.Stream) == "true" {
		return fault("invalid_value", "body.stream", say.New("batch.stream"))
	}
	var model string
	if asks.Model == nil || json.Unmarshal(asks.Model, &model) != nil || model == "" {
		return missing("body.model")
	}
	return line{customID: *w.CustomID, body: bytes.Clone(w.Body), model: model}, nil
}

// mostFaults bounds the reported faults of a file.
const mostFaults = 100

// checked is the summary of a file of lines that was read once.
type checked struct {
	lines  int
	chunks []int64
	faults []Fault
	// models are the models that the lines name, mostModels at most.
	models map[string]bool
}

func (c *checked) add(fault Fault, line int) {
	fault.Line = line
	c.faults = append(c.faults, fault)
}

// checkLines reads all lines of a file.
func checkLines(from io.Reader, endpoint string, most, longest, chunkLines int) (checked, error) {
	c := checked{models: map[string]bool{}}
	r := newLineReader(from, 0, longest)
	seen := map[[16]byte]int{} // by a hash, because names may be long
	for len(c.faults) < mostFaults {
		text, begins, err := r.next()
		if errors.Is(err, io.EOF) {
			break
		}
		if errors.Is(err, errLongLine) {
			c.add(NewFault("line_too_long", "", say.New("batch.long_line", "most", longest)), r.place)
			continue
		}
		if err != nil {
			return c, err
		}
		if c.lines == most {
			c.add(NewFault("too_many_lines", "", say.New("batch.many_lines", "most", most)), r.place)
			break
		}
		found, fault := parseLine(text, endpoint)
		if fault == nil {
			if first, twice := seen[hashOf(found.customID)]; twice {
				found := NewFault("duplicate_custom_id", "custom_id", say.New("batch.same_id", "line", first))
				fault = &found
			}
		}
		if fault != nil {
			c.add(*fault, r.place)
			continue
		}
		seen[hashOf(found.customID)] = r.place
		if len(c.models) < mostModels {
			c.models[found.model] = true
		}
		if c.lines%chunkLines == 0 {
			c.chunks = append(c.chunks, begins)
		}
		c.lines++
	}
	if c.lines == 0 && len(c.faults) == 0 {
		c.add(NewFault("empty_file", "", say.New("batch.empty")), 0)
	}
	return c, nil
}

func hashOf(name string) [16]byte {
	sum := sha256.Sum256([]byte(name))
	return [16]byte(sum[:16])
}

// chunkLinesFor returns how many lines a chunk of a file of a size has: few for a short
// file, which gives several gateways a part of it. The number of lines is not known yet,
// but every line is at least as long as the shortest request.
func chunkLinesFor(bytes int64) int {
	const least, most, chunks, shortest = 8, 512, 64, 100
	return int(min(max(bytes/shortest/chunks, least), most))
}
