package managedaudit

import "github.com/patchbay-ai/patchbay/internal/access"

func init() { access.Declare(manageAudit) }

// manageAudit is the right to read who did what, and to change the key that signs it.
const (
	manageAudit access.Permission = "audit:record:manage"
)
