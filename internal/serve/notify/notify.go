// Package notify reports the state of the program to the service manager that started it,
// in the way of systemd: ready, reloading, stopping, and still alive.
package notify

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"
)

// Manager is the service manager. The zero value means that there is none, and drops every
// message.
type Manager struct {
	socket string
	// interval is the time that the manager waits for a sign of life; 0 means that it does
	// not wait for any.
	interval time.Duration
}

// FromEnvironment returns the manager that the variables of the environment name. The manager
// waits for signs of life if the variables name the given process, or none.
func FromEnvironment(lookup func(name string) string, process int) Manager {
	m := Manager{socket: lookup("NOTIFY_SOCKET")}
	micros, err := strconv.ParseInt(lookup("WATCHDOG_USEC"), 10, 64)
	if pid := lookup("WATCHDOG_PID"); err == nil && micros > 0 && (pid == "" || pid == strconv.Itoa(process)) {
		m.interval = time.Duration(micros) * time.Microsecond
	}
	return m
}

// Ready says that the program serves.
func (m Manager) Ready(status string) error { return m.send("READY=1\nSTATUS=" + oneLine(status)) }

// Stopping says that the program is about to end.
func (m Manager) Stopping() error { return m.send("STOPPING=1") }

// Watch sends signs of life for as long as the program is alive, until the context ends.
// The manager restarts a program that is silent for too long.
func (m Manager) Watch(ctx context.Context, isAlive func(context.Context) bool) error {
	if m.socket == "" || m.interval <= 0 {
		return nil
	}
	ticks := time.NewTicker(m.interval / 3)
	defer ticks.Stop()
	for {
		check, cancel := context.WithTimeout(ctx, m.interval/3)
		alive := isAlive(check)
		cancel()
		if alive && ctx.Err() == nil {
			if err := m.send("WATCHDOG=1"); err != nil {
				return err
			}
		}
		select {
		case <-ticks.C:
		case <-ctx.Done():
			return nil
		}
	}
}

func oneLine(text string) string { return strings.Join(strings.Fields(text), " ") }

// send sends a message to the manager. A name that begins with @ is one outside of the
// file system.
func (m Manager) send(message string) error {
	if m.socket == "" {
		return nil
	}
	if !strings.HasPrefix(m.socket, "/") && !strings.HasPrefix(m.socket, "@") {
		return errors.New("NOTIFY_SOCKET is no path of a socket")
	}
	conn, err := new(net.Dialer).DialContext(context.Background(), "unixgram", m.socket)
	if err != nil {
		return fmt.Errorf("the service manager cannot be told: %w", err)
	}
	defer func() { _ = conn.Close() }()
	_, err = conn.Write([]byte(message))
	return err
}
