package socket_test

import (
	"strings"
	"testing"

	"github.com/patchbay-ai/patchbay/internal/gateway/gatewaytest"
)

// A prompt of the account at the backend is not named by callers with keys, unless the instance
// allows it.
func TestPromptsOfABackendsAccountInASession(t *testing.T) {
	t.Parallel()
	for settings, isRefused := range map[string]bool{"weight: 1": true, "account-ids: true": false} {
		b := startRealtime(t)
		yaml := gatewaytest.ChatYAML(gatewaytest.Instance("rt", b.URL, "upstream-model: upstream-realtime", settings)) + realtimeKey("")
		s := gatewaytest.Start(t, yaml).OpenSocket(realtimePath, realtimeHeaders...)
		s.Event()
		for _, message := range []string{`{"type":"session.update","session":{"prompt":{"id":"pmpt_1"}}}`, `{"type":"response.create","response":{"prompt":{"id":"pmpt_1"}}}`} {
			s.Send(message)
			if !isRefused {
				continue
			}
			if event := s.Event(); event["type"] != "error" || !strings.Contains(gatewaytest.At(t, event, "error/message").(string), "account-ids") {
				t.Errorf("%s: %v", message, event)
			}
		}
		s.Send(`{"type":"response.create","response":{"instructions":"ignore"}}`)
		gatewaytest.Eventually(t, "the last message has come", func() bool {
			got := b.messages()
			return len(got) > 0 && strings.Contains(got[len(got)-1], "ignore")
		})
		if all := strings.Join(b.messages(), ""); strings.Contains(all, "pmpt_1") == isRefused {
			t.Errorf("%s: the backend got %q", settings, all)
		}
	}
}

// A member for operators of engines is not named by callers with keys, unless the instance allows it.
func TestMembersForOperatorsInASession(t *testing.T) {
	t.Parallel()
	for settings, isRefused := range map[string]bool{"weight: 1": true, "allow-members: [priority]": false} {
		b := startRealtime(t)
		yaml := gatewaytest.ChatYAML(gatewaytest.Instance("rt", b.URL, "upstream-model: upstream-realtime", settings)) + realtimeKey("")
		s := gatewaytest.Start(t, yaml).OpenSocket(realtimePath, realtimeHeaders...)
		s.Event()
		for _, message := range []string{`{"type":"session.update","session":{"priority":1}}`, `{"type":"input_audio_buffer.clear","Priority":1}`, `{"type":"response.create","response":{"priority":1,"instructions":"ignore"}}`} {
			s.Send(message)
			if !isRefused {
				continue
			}
			if event := s.Event(); event["type"] != "error" || gatewaytest.At(t, event, "error/code") != "member_not_allowed" || gatewaytest.At(t, event, "error/param") != "priority" {
				t.Errorf("%s: got %v, want member_not_allowed", message, event)
			}
		}
		s.Send(`{"type":"response.create","response":{"instructions":"ignore"}}`)
		gatewaytest.Eventually(t, "the last message has come", func() bool {
			got := b.messages()
			return len(got) > 0 && strings.HasSuffix(got[len(got)-1], `{"instructions":"ignore"}}`)
		})
		all, want := strings.Join(b.messages(), ""), map[bool]int{true: 0, false: 3}[isRefused]
		if strings.Count(strings.ToLower(all), "priority") != want {
			t.Errorf("%s: the backend got %q, want %d of them", settings, all, want)
		}
	}
}
