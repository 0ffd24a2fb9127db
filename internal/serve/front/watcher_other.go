//go:build !linux

package front

import "errors"

// watcher does not exist here.
type watcher struct{}

func newWatcher() (*watcher, error) {
	return nil, errors.New("there is no poller for it on this system")
}

func (*watcher) add(*conn) error { return nil }
func (*watcher) forget(*conn)    {}
func (*watcher) run() error      { return nil }
func (*watcher) close()          {}
