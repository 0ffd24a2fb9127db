package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// runScript runs a script of the package as dpkg does, on a system that runs systemd, with
// helpers that note how they were called. The service starts, or it does not.
func runScript(t *testing.T, script string, starts bool, args ...string) (output, called string, err error) {
	t.Helper()
	shell, err := exec.LookPath("sh")
	if err != nil {
		t.Skip("sh is not installed")
	}
	dir := t.TempDir()
	exit := "exit 0"
	if !starts {
		exit = "exit 1"
	}
	for name, last := range map[string]string{"systemctl": "exit 0", "deb-systemd-helper": "exit 0", "deb-systemd-invoke": exit} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\necho "+name+" \"$@\" >>'"+dir+"/calls'\n"+last+"\n"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.MkdirAll(filepath.Join(dir, "root/run/systemd/system"), 0o755); err != nil {
		t.Fatal(err)
	}
	command := exec.Command(shell, append([]string{"-s", "--"}, args...)...)
	command.Stdin = strings.NewReader(script)
	command.Env = []string{"PATH=" + dir + ":" + os.Getenv("PATH"), "DPKG_ROOT=" + filepath.Join(dir, "root")}
	out, err := command.CombinedOutput()
	calls, _ := os.ReadFile(filepath.Join(dir, "calls")) // none may have been made
	return string(out), string(calls), err
}

// A service that does not start, because its port is taken, leaves no package half
// configured: it says what to do.
func TestAnInstallationDoesNotFailWithTheService(t *testing.T) {
	for _, test := range []struct {
		version string // that was configured before
		starts  bool
		action  string
	}{
		{"", true, "start"}, {"", false, "start"}, {"1.0.0", true, "try-restart"}, {"1.0.0", false, "try-restart"},
	} {
		output, called, err := runScript(t, postinst, test.starts, "configure", test.version)
		if err != nil {
			t.Errorf("%+v: %v\n%s", test, err, output)
		}
		if !strings.Contains(called, "deb-systemd-helper enable patchbay.service\n") || !strings.Contains(called, "deb-systemd-invoke "+test.action+" patchbay.service\n") {
			t.Errorf("%+v: called\n%s", test, called)
		}
		if says := strings.Contains(output, "journalctl --unit patchbay"); says == test.starts {
			t.Errorf("%+v says\n%s", test, output)
		}
	}
}

func TestRemovingStopsTheServiceAndPurgingForgets(t *testing.T) {
	if output, called, err := runScript(t, prerm, false, "remove"); err != nil || !strings.Contains(called, "deb-systemd-invoke stop patchbay.service") {
		t.Errorf("%v: %s, called\n%s", err, output, called)
	}
	if output, called, err := runScript(t, prerm, true, "upgrade", "2.0.0"); err != nil || called != "" {
		t.Errorf("%v: %s, called\n%s", err, output, called)
	}
	if output, called, err := runScript(t, postrm, true, "purge"); err != nil || !strings.Contains(called, "deb-systemd-helper purge patchbay.service") {
		t.Errorf("%v: %s, called\n%s", err, output, called)
	}
}
