//go:build unix && !linux

package processes

import "syscall"

// adopt does nothing: only Linux lets a process adopt the orphans of its descendants.
func adopt() {}

// closeFiles leaves inherited files open: only Linux closes them in one call.
func closeFiles() {}

// attributes puts the process into a group of its own.
func attributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

// killAll kills the group of the process. It does not find processes that have left the
// group.
func (s *supervisor) killAll() { _ = syscall.Kill(-s.pid, syscall.SIGKILL) }
