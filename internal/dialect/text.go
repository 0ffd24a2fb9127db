package dialect

import (
	"fmt"

	"github.com/patchbay-ai/patchbay/internal/request/jsonscan"
	"github.com/patchbay-ai/patchbay/internal/request/jsonwrite"
)

// CompactObject returns an object without the spaces between its tokens, which
// plain answers are full of.
func CompactObject(v jsonscan.Value) []byte {
	if v.Kind() != jsonscan.Object {
		return []byte("{}")
	}
	return jsonwrite.Compact(v.Raw())
}

// Parse scans a backend's text and returns its root. Duplicate keys are no fault there. The
// error is an ErrInvalid.
func Parse(doc *jsonscan.Document, text []byte) (jsonscan.Value, error) {
	doc.AllowDuplicateKeys = true
	if err := doc.Parse(text); err != nil {
		return jsonscan.Value{}, fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	return doc.Root(), nil
}

// IsFinishReason reports whether a finish_reason is one: some backends write an empty
// text where others write null.
func IsFinishReason(v jsonscan.Value) bool {
	return v.Kind() == jsonscan.String && len(v.Raw()) > len(`""`)
}

// AppendReminder appends a text of the system between turns, as the user's text. The
// templates of many models refuse a system message there; agents use the same marks
// themselves. Both texts are contents of JSON strings.
func AppendReminder(dst, text []byte) []byte {
	dst = append(append(dst, `<system-reminder>\n`...), text...)
	return append(dst, `\n</system-reminder>\n`...)
}
