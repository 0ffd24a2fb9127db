package audit

import "github.com/patchbay-ai/patchbay/internal/plain/say"

func init() { say.Declare(sentences) }

// sentences are the sentences of this feature.
var sentences = []say.Entry{
	{"field.syslog",
		"must be an address such as tcp://logs.example:601, tls://logs.example:6514 or unix:///dev/log"},
	{"audit.away", "The records of the audit cannot be read now; the log of the gateway says why."},
	{"audit.whole", "jsonl is all records, which are for administrators"},
	{"audit.format", "must be json or jsonl"},
}
