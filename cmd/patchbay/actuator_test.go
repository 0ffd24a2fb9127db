package main

import (
	"runtime/debug"
	"testing"
)

// The Makefile says what was built; a plain build has what the Go command noted.
func TestBuildIsDescribed(t *testing.T) {
	t.Parallel()
	noted := &debug.BuildInfo{Settings: []debug.BuildSetting{
		{Key: "vcs", Value: "git"}, {Key: "vcs.revision", Value: "0123456789abcdef0123"}, {Key: "vcs.time", Value: "2025-01-02T03:04:05Z"},
	}}
	if got := buildOf(noted, true); got.Commit != "0123456789ab" || got.Date != "2025-01-02T03:04:05Z" || got.Version != version {
		t.Errorf("%+v", got)
	}
	if got := buildOf(nil, false); got.Commit != "" || got.Date != "" {
		t.Errorf("%+v", got)
	}
}
