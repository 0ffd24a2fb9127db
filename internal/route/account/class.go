package account

import (
	"strconv"
	"time"

	"github.com/patchbay-ai/patchbay/internal/request/schema"
)

// ClassHeader is the header that asks for a class.
const ClassHeader = "X-Router-Priority"

// TargetHeader is the header that asks for the first token within so many milliseconds.
const TargetHeader = "X-Router-Ttft-Target"

// mostTarget is the longest target that a request may have, in milliseconds.
const mostTarget = 600_000

// ParseTarget reads the value of TargetHeader.
func ParseTarget(text string) (time.Duration, error) {
	if n, err := strconv.ParseUint(text, 10, 32); err == nil && n >= 1 && n <= mostTarget {
		return time.Duration(n) * time.Millisecond, nil
	}
	return 0, schema.CodedError(schema.CodeInvalidValue, "call.ttft_target", "most", mostTarget)
}

// Aim finds within what time the request wants its first token, if it says so.
func (a *Account) Aim() (err error) {
	if asked := a.Caller.Header[TargetHeader]; len(asked) > 0 {
		a.Target, err = ParseTarget(asked[0])
	}
	return err
}

// Classify finds the class of the request, unless its maker has set one: the class in the
// header, or else the priority of its key and its tenant, or of the service type. The priority
// is also the most urgent class that a key may ask for. Where callers need no key, the header
// alone decides.
func (a *Account) Classify() error {
	if a.Class != schema.NoClass {
		return nil
	}
	a.Class = schema.Normal
	if service := a.service(); service != nil {
		a.Class = service.Policy.Priority.Or(schema.Normal)
	}
	if a.Caller.Grant != nil {
		a.Class = a.Caller.Grant.Priority.Or(a.Class)
	}
	asked := a.Caller.Header[ClassHeader]
	if len(asked) == 0 {
		return nil
	}
	var class schema.Class
	if err := class.UnmarshalText([]byte(asked[0])); err != nil || class == schema.NoClass {
		return schema.CodedError(schema.CodeInvalidValue, "call.priority")
	}
	if a.Caller.Grant != nil && class > a.Class {
		return schema.CodedError(schema.CodePermissionDenied,
			"call.key_priority", "priority", class, "most", a.Class)
	}
	a.Class = class
	return nil
}
