package account

import (
	"fmt"

	"github.com/patchbay-ai/patchbay/internal/request/schema"
)

// ClassHeader is the header by which a request asks for a class.
const ClassHeader = "X-Router-Priority"

// classify is Classify where something says what the class is.
func (r *Account) classify() error {
	r.Class = schema.Normal
	if service := r.service(); service != nil {
		r.Class = service.Policy.Priority.Or(schema.Normal)
	}
	if r.Caller.Grant != nil {
		r.Class = r.Caller.Grant.Priority.Or(r.Class)
	}
	asked := r.Caller.Header[ClassHeader]
	if len(asked) == 0 {
		return nil
	}
	var class schema.Class
	if err := class.UnmarshalText([]byte(asked[0])); err != nil || class == schema.NoClass {
		return schema.NewError(schema.CodeInvalidValue, "The header x-router-priority must be interactive, normal or batch.")
	}
	if r.Caller.Grant != nil && class > r.Class {
		return schema.NewError(schema.CodePermissionDenied,
			fmt.Sprintf("This API key may not ask for the priority %s: the most urgent one that it may ask for is %s.", class, r.Class))
	}
	r.Class = class
	return nil
}
