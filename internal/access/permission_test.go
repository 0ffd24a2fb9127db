package access_test

import (
	"testing"

	"github.com/patchbay-ai/patchbay/internal/access"
)

func TestShapeOfPermissions(t *testing.T) {
	for code, want := range map[access.Permission]bool{
		access.Anyone: true, access.ByKey: true, access.ReadModels: true, access.WriteInstances: true,
		"a:z": true, "a-z:b-y:read": true,
		"": false, "anybody": false, "read": false, ":": false, "a:": false, ":read": false, "a::read": false,
		"A:read": false, "a:re`d": false, "a:re{d": false, "a:read1": false, "a b:read": false,
	} {
		if code.Valid() != want {
			t.Errorf("%q is valid: %t", code, !want)
		}
	}
}
