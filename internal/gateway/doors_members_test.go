package gateway_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/patchbay-ai/patchbay/internal/gateway/gatewaytest"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
)

// namingMember returns bodies that name a member for operators of engines, by the place of the member.
func namingMember(body, contentType, member string) map[string]string {
	if boundary, isForm := strings.CutPrefix(contentType, "multipart/form-data; boundary="); isForm {
		return map[string]string{"a field": "--" + boundary + "\r\nContent-Disposition: form-data; name=\"" + member + "\"\r\n\r\n1\r\n" + body}
	}
	all := map[string]string{}
	for place, format := range map[string]string{"the top level": "{%q:1,", "extra_body": `{"extra_body":{%q:1},`} {
		all[place] = strings.Replace(body, "{", fmt.Sprintf(format, member), 1)
	}
	return all
}

// A request with a key that names a member for operators of engines reaches no backend, at any door.
func TestMembersForOperatorsAtEveryDoor(t *testing.T) {
	t.Parallel()
	doors := limitedDoors(t)
	for door, d := range uncountedDoors(t) {
		doors = append(doors, limitedDoor{name: door.String(), door: door, path: d.path, body: gatewaytest.JSONBody(d.body), reported: d.answer})
		if d.plain != "" {
			doors = append(doors, limitedDoor{name: door.String() + ", estimated", door: door, path: d.plainPath, body: gatewaytest.JSONBody(d.plain)})
		}
	}
	for _, d := range doors {
		t.Run(d.name, func(t *testing.T) {
			t.Parallel()
			if strings.Contains(d.name, "WebSocket") {
				gatewaytest.Needs(t, "realtime")
			}
			b := gatewaytest.StartBackend(t)
			b.ScriptForever(d.reported)
			yaml := limitedYAML(b, nil)
			r := gatewaytest.StartWith(t, gatewaytest.Setup{YAML: yaml})
			r.BackendsLie = true // about usage
			body, contentType := d.body(t)
			headers := append(bearer("free"), "Content-Type", contentType)
			for _, member := range schema.EngineMember("").Names() {
				if member == "cache_salt" { // it is the caller's unless the instance sets it
					continue
				}
				for place, body := range namingMember(body, contentType, member) {
					reply := d.do(t.Context(), r, body, headers...)
					if reply.Header.Get("X-Router-Estimated") != "" { // no backend answers it
						continue
					}
					if reply.Status != http.StatusBadRequest || !strings.Contains(reply.Body, "'"+member+"' is meant for the operator of the engine") {
						t.Errorf("%s in %s: got %d %s, want 400", member, place, reply.Status, reply.Body)
					}
				}
			}
			if got := len(b.Requests()); got != 0 {
				t.Errorf("the backend got %d requests, want none", got)
			}
		})
	}
}
