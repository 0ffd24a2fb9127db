package adapter

import (
	"net/http"
	"strings"
)

// Meaning is what a backend's complaint says about the backend.
type Meaning uint8

// The meanings. The zero value is what a 5xx, and an error inside an answer that
// began as a success, mean unless the backend's words say something else.
const (
	// BackendFault means that the backend failed; another one may do better.
	BackendFault Meaning = iota
	// RequestFault means that the request cannot be served as it is, whichever
	// backend of the kind gets it.
	RequestFault
	// Overload means that the backend is well and has too much to do.
	Overload
)

// Complaint is a text by which backends of a kind tell that a request is at fault,
// or that they are busy, under a status that says neither.
type Complaint struct {
	// Status is the status under which the text has its meaning; 0 stands for any
	// 5xx and for an error inside a successful answer.
	Status int
	// Text is a part of the message, in lower case.
	Text  string
	Means Meaning
}

// maxWords is how much of a message is searched; backends come to the point.
const maxWords = 4 << 10

// Meaning tells what a complaint of a backend of this kind says about the backend.
// Only what would otherwise be a fault of the backend is looked at.
func (k *Kind) Meaning(f *Failure) Meaning {
	if f.Status != http.StatusOK && f.Status < 500 {
		return BackendFault
	}
	words := strings.ToLower(f.Message[:min(len(f.Message), maxWords)])
	for _, list := range k.Complaints {
		for i := range list {
			c := &list[i]
			if (c.Status == 0 || c.Status == f.Status) && strings.Contains(words, c.Text) {
				return c.Means
			}
		}
	}
	return BackendFault
}

// The words of the servers, taken from their sources and from recordings.
// Whatever is listed here is the same for every try of the same request.
var (
	// llama.cpp answers 500 for every exception that is not of one certain type.
	llamaComplaints = []Complaint{
		{Text: "is too large to process. increase the physical batch size", Means: RequestFault},
		{Text: "context shift is disabled", Means: RequestFault},
		{Text: "failed to download image", Means: RequestFault},
		{Text: "cannot make get request", Means: RequestFault},
		{Text: "invalid url", Means: RequestFault},
		{Text: "unsupported url scheme", Means: RequestFault},
		{Text: "https is not supported", Means: RequestFault},
		{Text: "failed to load image or audio file", Means: RequestFault},
		{Text: "invalid base64 value", Means: RequestFault},
		{Text: "input is not supported - hint:", Means: RequestFault},
		{Text: "does not support multimodal requests", Means: RequestFault},
		{Text: "failed to parse messages:", Means: RequestFault},
		{Text: "failed to parse tools:", Means: RequestFault},
		{Text: "failed to parse tool call arguments as json", Means: RequestFault},
		{Text: "param requires --jinja flag", Means: RequestFault},
		{Text: "cannot use both json_schema and grammar", Means: RequestFault},
		{Text: "cannot specify grammar with tools", Means: RequestFault},
		{Text: `"json_schema": `, Means: RequestFault},
		{Text: "unsupported param:", Means: RequestFault},
		{Text: "jinja exception:", Means: RequestFault},
		{Text: "[json.exception.", Means: RequestFault},
	}
	whisperComplaints = []Complaint{
		{Text: "ffmpeg conversion failed", Means: RequestFault},
		{Text: "failed to read audio data", Means: RequestFault},
		{Text: "failed to read wav file", Means: RequestFault},
	}
	localAIComplaints = []Complaint{
		{Text: "invalid response_format", Means: RequestFault},
		{Text: "http: no such file", Means: RequestFault},
	}
	ollamaComplaints = []Complaint{
		{Status: http.StatusServiceUnavailable, Text: "server busy", Means: Overload},
		{Text: `" must be of type `, Means: RequestFault},
		{Text: "failed to process inputs:", Means: RequestFault},
		{Text: "input length exceeds", Means: RequestFault},
		{Text: "invalid json schema in format", Means: RequestFault},
		{Text: "invalid format:", Means: RequestFault},
	}
)
