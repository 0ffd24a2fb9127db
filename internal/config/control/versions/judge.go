package versions

import (
	"slices"

	"github.com/patchbay-ai/patchbay/internal/config/control/vouch"
	"github.com/patchbay-ai/patchbay/internal/store/seal"
)

// IsUnsigned reports whether the version was read where versions are signed, and has no
// signature: a gateway of an earlier release has written it, or somebody without the
// master key. A version of an unsigned backup counts as one until it is confirmed.
func (v *Version) IsUnsigned() bool { return v.isUnsigned || v.restore != "" }

// IsDoubted reports whether there is a doubt about the version or about one of its instances.
func (v *Version) IsDoubted() bool { return v.IsUnsigned() || vouch.HasDoubts(v.Services) }

// SetRestored marks a version of a backup that is not signed with the id of its restore: its references are
// not resolved and none of its secrets are sent, until it is confirmed.
func (v *Version) SetRestored(restore string) { v.isUnsigned, v.restore = false, restore }

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

// Judge returns the services of a version as they may come into force. An instance that
// no trusted source confirms is in doubt, and does not send its secrets. The services of
// the configuration file vouch for the addresses that they have, and so do the signed
// versions of logs. References are the names that stored versions may use in addition to
// the names in the file.
func Judge(v *Version, file Services, references []string, logs ...Log) Services {
	trust := new(vouch.Trust)
	trust.Add(file)
	more := nextSigned(logs, v.Number)
	if v.isUnsigned {
		return trust.Judge(v.Services, v.stored, more)
	}
	return trust.Lift(v.Services, references, more)
}

// nextSigned returns a function that makes the instances of one signed version after the
// other known, the newest first, and returns false at the end.
func nextSigned(logs []Log, except int) func(*vouch.Trust) bool {
	var numbers []int
	at := -1
	return func(trust *vouch.Trust) bool {
		for {
			for len(numbers) == 0 {
				if at++; at >= len(logs) {
					return false
				}
				numbers, _ = logs[at].Versions() // a log that cannot be listed vouches for nothing
				slices.Reverse(numbers)
			}
			number := numbers[0]
			numbers = numbers[1:]
			if number == except {
				continue
			}
			if v, err := logs[at].Load(number); err == nil && !v.isUnsigned {
				trust.Add(v.Services)
				return true
			}
		}
	}
}

// Entrusted returns edited services with new doubts where doubtful instances have got
// secrets that they did not have before.
func Entrusted(services, before Services) Services { return vouch.Entrusted(services, before) }

// LiftDoubts ends the doubts about instances that a configuration file has.
func LiftDoubts(services, file Services, references []string) Services {
	trust := new(vouch.Trust)
	trust.Add(file)
	return trust.Lift(services, references, func(*vouch.Trust) bool { return false })
}

// Found returns the instances of a version without a signature, with their service types,
// that would be in doubt once it is signed, because they refer to secrets in a way that the
// configuration file and the listed names do not allow.
func Found(services, file Services, references []string) []string {
	trust := new(vouch.Trust)
	trust.Add(file)
	found := LiftDoubts(trust.Find(services), file, references)
	var names []string
	for serviceType, service := range found {
		for i := range service.Instances {
			if service.Instances[i].Doubt != "" {
				names = append(names, serviceType.String()+"/"+service.Instances[i].ID())
			}
		}
	}
	return names
}
