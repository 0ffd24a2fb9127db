package adapter

import (
	"strconv"
	"time"

	"github.com/patchbay-ai/patchbay/internal/jsonscan"
)

// stampCreated gives a reply the time of its making, which some backends leave
// out and clients require.
func stampCreated(root jsonscan.Value) jsonscan.Edit {
	now := strconv.AppendInt(nil, time.Now().Unix(), 10)
	if v := root.Get("created"); v.Kind() != jsonscan.Absent {
		return v.Replace(now)
	}
	return root.Insert(append([]byte(`"created":`), now...))
}
