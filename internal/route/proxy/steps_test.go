package proxy

import (
	"context"
	"io"
	"slices"
	"testing"

	"github.com/patchbay-ai/patchbay/internal/access"
	"github.com/patchbay-ai/patchbay/internal/config"
	"github.com/patchbay-ai/patchbay/internal/count/ratelimit"
	"github.com/patchbay-ai/patchbay/internal/plain/say"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
	"github.com/patchbay-ai/patchbay/internal/route/account"
)

// said is an answer that a step gives by itself.
type said struct {
	parts []string
	form  account.Form
}

func (s *said) Form() account.Form { return s.form }
func (s *said) IsComplete() bool   { return len(s.parts) == 0 }
func (*said) Usage() schema.Usage {
	return schema.Usage{Prompt: 3, Completion: 4, Total: 7, Known: true}
}
func (s *said) Next() (p []byte, err error) {
	if len(s.parts) == 0 {
		return nil, io.EOF
	}
	p, s.parts = []byte(s.parts[0]), s.parts[1:]
	return p, nil
}

// A step that answers by itself needs no instance. The request is limited and recorded, and
// the steps behind it are not asked.
func TestStepAnswersByItself(t *testing.T) {
	t.Parallel()
	for name, answer := range map[string]*said{
		`{"whole":true}`:                  {parts: []string{`{"whole"`, `:true}`}, form: account.Form{ContentType: TypeJSON, Length: 14}},
		"data: 1\n\ndata: [DONE]\n\n":     {parts: []string{"1"}, form: account.Form{ContentType: TypeEvents, Length: -1, Events: true}},
		"event: a\n\nevent: b\ndata:\n\n": {parts: []string{"event: a\n\n", "event: b\ndata:\n\n"}, form: account.Form{ContentType: TypeEvents, Length: -1, Events: true, Framed: true}},
	} {
		d := newDesk(t, 1, func(s *config.Service) {
			limited(5, ratelimit.PerService)(s)
			s.Instances[0].Enabled = false
		})
		d.Use(func(_ context.Context, r *Request) (account.Answer, error) {
			if r.Model != "m" || d.remaining() != 4 {
				t.Errorf("the step sees the model %q, and %d requests are left", r.Model, d.remaining())
			}
			return answer, nil
		}, func(context.Context, *Request) (account.Answer, error) {
			t.Error("a step was asked after the answer")
			return nil, nil
		})
		record, to := newRecord(), newClientConn()
		if err := d.Do(context.Background(), &Request{Asks: chatRequest(t), Caller: &access.Caller{}, Record: record}, to); err != nil {
			t.Fatal(err)
		}
		got := to.held.String()
		for i, s := range slices.Backward(to.got()) {
			_ = i
			got = s.text + got
		}
		if got != name || to.route.Attempts != 0 || to.route.Instance != nil || to.route.Limit.Remaining != 4 {
			t.Errorf("the client got %q and was told %+v, want %q", got, to.route, name)
		}
		if d.remaining() != 4 {
			t.Errorf("%d requests are left, want 4", d.remaining())
		}
		if record.Usage.Total != 7 || record.FirstByte == 0 || record.Code != "" || record.Model != "m" || record.Streamed != answer.form.Events || record.Attempts != 0 {
			t.Errorf("record %+v", record)
		}
	}
}

// A step that refuses a request is a guard. What the request took is given back.
func TestStepRefuses(t *testing.T) {
	t.Parallel()
	d := newDesk(t, 1, limited(5, ratelimit.PerService))
	var order []string
	d.Use(func(ctx context.Context, r *Request) (account.Answer, error) {
		order = append(order, "first")
		return r.Next(ctx)
	}, func(context.Context, *Request) (account.Answer, error) {
		order = append(order, "second")
		return nil, schema.NewError(schema.CodePermissionDenied, say.Plain("No."))
	})
	record := newRecord()
	err := d.Do(context.Background(), &Request{Asks: chatRequest(t), Caller: &access.Caller{}, Record: record}, newClientConn())
	if codeOf(err) != schema.CodePermissionDenied || record.Code != schema.CodePermissionDenied || !slices.Equal(order, []string{"first", "second"}) {
		t.Errorf("%v, record %q, steps %v", err, record.Code, order)
	}
	if d.remaining() != 5 {
		t.Errorf("%d requests are left, want 5", d.remaining())
	}
}
