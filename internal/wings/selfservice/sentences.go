package selfservice

import "github.com/patchbay-ai/patchbay/internal/plain/say"

func init() { say.Declare(sentences) }

// sentences are the sentences of this feature.
var sentences = []say.Entry{
	{"field.beyond", "is beyond {of}"},
	{"field.beyond_number", "must be at most {most}, which {of} allows"},
	{"field.beyond_time", "must be no later than {most}, which {of} allows"},
	{"field.nothing_left", "has nothing that {of} and the terms before it allow; ask an administrator"},
	{"field.unlimited", "must not be negative: a key of your own cannot be without a limit that others have"},
	{"field.which_tenant", "must be one of your tenants: {known}"},
	{"field.label", "must be a name of 1 to 128 bytes without control characters"},
	{"manage.gateways_key", "The configuration file or an administrator of the gateway made this key, and only they " +
		"can change or rotate it; you can revoke it."},
	{"manage.others_key", "Another member made this key, and only they can rotate it; you can revoke it."},
	{"manage.no_member", "not found: the tenant {tenant} has no such member"},
}
