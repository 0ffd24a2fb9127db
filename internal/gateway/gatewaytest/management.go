package gatewaytest

import (
	"fmt"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/patchbay-ai/patchbay/internal/plain/say"
)

// ManagementReply is a reply of the management API with a checked envelope.
type ManagementReply struct {
	Reply
	Message string
	Data    jsontext.Value
}

// API sends a request to the management API, and asks for codes beside the sentences.
func (r *Gateway) API(method, path, body string, headers ...string) ManagementReply {
	r.T.Helper()
	return EnvelopeOf(r.T, r.Do(method, path, body, append([]string{"X-Patchbay-Said", "true"}, headers...)...))
}

// EnvelopeOf checks the envelope of a reply.
func EnvelopeOf(t *testing.T, from Reply) ManagementReply {
	t.Helper()
	a := ManagementReply{Reply: from}
	var fields map[string]jsontext.Value
	err := json.Unmarshal([]byte(a.Body), &fields)
	said := fields["said"]
	delete(fields, "said")
	if err != nil || len(fields) != 3 {
		t.Fatalf("no envelope (%v): %d %s", err, a.Status, a.Body)
	}
	var success bool
	if json.Unmarshal(fields["success"], &success) != nil || success != (a.Status < 300) {
		t.Errorf("success is %s with status %d", fields["success"], a.Status)
	}
	if json.Unmarshal(fields["message"], &a.Message) != nil || a.Message == "" {
		t.Errorf("the message is %s", fields["message"])
	}
	checkSaid(t, a, said)
	a.Data = fields["data"]
	if !success && string(a.Data) != "null" {
		t.Errorf("an error has data: %s", a.Data)
	}
	if a.Header.Get("Content-Type") != "application/json" || a.Header.Get("X-Request-Id") == "" {
		t.Errorf("headers %v", a.Header)
	}
	return a
}

// checkSaid checks that the codes of an error say the same as its message.
func checkSaid(t *testing.T, a ManagementReply, said jsontext.Value) {
	t.Helper()
	if said == nil {
		return // the request did not ask for them
	}
	if a.Status < 300 {
		t.Errorf("a reply that is no error says %s", said)
	}
	var sentences []say.Sentence
	if err := json.Unmarshal(said, &sentences); err != nil || say.Join(sentences) != a.Message {
		t.Errorf("the codes are %s (%v), and the message is %s", said, err, a.Message)
	}
}

// Is checks the status and that the body contains all the parts.
func (a ManagementReply) Is(t *testing.T, status int, parts ...string) ManagementReply {
	t.Helper()
	if a.Status != status {
		t.Errorf("status %d, want %d: %s", a.Status, status, a.Body)
	}
	for _, part := range parts {
		if !strings.Contains(a.Body, part) {
			t.Errorf("no %s in %s", part, a.Body)
		}
	}
	return a
}

// DataOf decodes the data of an answer.
func DataOf[T any](t *testing.T, a ManagementReply) T {
	t.Helper()
	var value T
	if err := json.Unmarshal(a.Data, &value); err != nil {
		t.Fatalf("%v in %s", err, a.Body)
	}
	return value
}

// Paths of the management API; a service type or a number follows them.
const (
	TypesPath          = "/api/config/type/services/"
	AddInstancePath    = "/api/config/instance/add/"
	UpdateInstancePath = "/api/config/instance/update/"
	InstanceInfoPath   = "/api/config/instance/info/"
	InstancesPath      = "/api/config/instance/type/"
	VersionsPath       = "/api/config/version"
)

// PathParameter matches a parameter in the pattern of a route.
var PathParameter = regexp.MustCompile(`{\w+(\.\.\.)?}`)

// VersionFile returns where a version is kept.
func VersionFile(dataDir string, number int) string {
	return filepath.Join(dataDir, "versions", fmt.Sprintf("%08d.json", number))
}
