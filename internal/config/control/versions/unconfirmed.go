package versions

import (
	"github.com/patchbay-ai/patchbay/internal/config/control/vouch"
	"github.com/patchbay-ai/patchbay/internal/store/seal"
)

// IsUnconfirmed reports whether an unsigned backup was restored with the version and is not confirmed.
func (v *Version) IsUnconfirmed() bool { return v.restore != "" }

// IsDoubted reports whether there is a doubt about the version or about one of its instances.
func (v *Version) IsDoubted() bool { return v.IsUnconfirmed() || vouch.HasDoubts(v.Services) }

// SetRestored marks a version of a backup that is not signed with the id of its restore: its references are
// not resolved and none of its secrets are sent, until it is confirmed.
func (v *Version) SetRestored(restore string) { v.restore = restore }

// Confirm returns the next signature of a stored version that SetRestored has marked with this id: one
// without doubts. It is empty for any other version.
func Confirm(keys *seal.Keys, restore string, number int, record []byte, signature string) (string, error) {
	v, err := ReadVersion(number, record)
	if err != nil {
		return "", err
	}
	opened, err := sealing{keys}.read(v, signature)
	if err != nil || opened.restore != restore {
		return "", err
	}
	return v.sign(keys, vouch.WithDoubts(opened.Services, nil), opened.Settings)
}
