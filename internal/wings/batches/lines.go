package batches

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net/http"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
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
	fault := func(code, param, message string) (line, *Fault) {
		return line{}, &Fault{Code: code, Message: message, Param: param}
	}
	var w written
	if err := json.Unmarshal(text, &w); err != nil {
		var syntax *jsontext.SyntacticError
		if errors.As(err, &syntax) {
			return fault("invalid_json_line", "", "This line is not valid JSON.")
		}
		return fault("invalid_request", "", "This line is no object with custom_id, method, url and body.")
	}
	switch {
	case w.CustomID == nil || *w.CustomID == "":
		return fault("missing_required_parameter", "custom_id", "Missing required parameter: 'custom_id'.")
	case len(*w.CustomID) > longestID:
		return fault("invalid_value", "custom_id",
			fmt.Sprintf("'custom_id' must not be longer than %d bytes.", longestID))
	case w.Method != http.MethodPost:
		return fault("invalid_method", "method", "'method' must be POST.")
	case w.URL != endpoint:
		return fault("invalid_url", "url", "'url' must be the endpoint of the batch, "+endpoint+".")
	case w.Body.Kind() != '{':
		return fault("missing_required_parameter", "body", "'body' must be an object: the request.")
	}
	var asks struct {
		Model  jsontext.Value `json:"model"`
		Stream jsontext.Value `json:"stream"`
	}
	if err := json.Unmarshal(w.Body, &asks); err != nil {
		return fault("invalid_json_line", "body", "The body is not valid JSON.")
	}
	if string(asks.Stream) == "true" {
		return fault("invalid_value", "body.stream", "An answer of a batch cannot be streamed: leave 'stream' out.")
	}
	var model string
	if asks.Model == nil || json.Unmarshal(asks.Model, &model) != nil || model == "" {
		return fault("missing_required_parameter", "body.model", "Missing required parameter: 'body.model'.")
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
			c.faults = append(c.faults, Fault{
				Code: "line_too_long", Message: fmt.Sprintf("The line is longer than the %d bytes that a request may "+
					"have.", longest), Line: r.place,
			})
			continue
		}
		if err != nil {
			return c, err
		}
		if c.lines == most {
			c.faults = append(c.faults, Fault{
				Code: "too_many_lines", Message: fmt.Sprintf("The file has more than the %d requests that a batch "+
					"may have.", most), Line: r.place,
			})
			break
		}
		found, fault := parseLine(text, endpoint)
		if fault == nil {
			if first, twice := seen[hashOf(found.customID)]; twice {
				fault = &Fault{
					Code: "duplicate_custom_id", Param: "custom_id",
					Message: fmt.Sprintf("The custom_id is that of line %d as well; it must be unique within a batch.",
						first),
				}
			}
		}
		if fault != nil {
			fault.Line = r.place
			c.faults = append(c.faults, *fault)
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
		c.faults = append(c.faults, Fault{Code: "empty_file", Message: "The file has no requests."})
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
