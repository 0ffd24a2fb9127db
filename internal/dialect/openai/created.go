package openai

import (
	"crypto/rand"
	"strconv"
	"time"

	"github.com/patchbay-ai/patchbay/internal/request/jsonscan"
)

// The ids of completions begin with these.
const (
	chatIDPrefix = "chatcmpl-"
	textIDPrefix = "cmpl-"
)

// appendNewID appends the member that names a completion, if the backend did not.
func appendNewID(dst []byte, prefix string) []byte {
	dst = append(append(dst, `"id":"`...), prefix...)
	dst = append(dst, rand.Text()...)
	return append(dst, '"')
}

// appendCreated appends the member that says that a reply was made now.
func appendCreated(dst []byte) []byte {
	return strconv.AppendInt(append(dst, `"created":`...), time.Now().Unix(), 10)
}

// stampCreated gives a reply the time of its making, which some backends leave
// out and clients require.
func stampCreated(root jsonscan.Value) jsonscan.Edit {
	if v := root.Get("created"); v.Kind() != jsonscan.Absent {
		return v.Replace(strconv.AppendInt(nil, time.Now().Unix(), 10))
	}
	return root.Insert(appendCreated(nil))
}
