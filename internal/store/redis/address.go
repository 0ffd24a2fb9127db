// Package redis connects to Redis, or to anything that speaks its protocol: alone, behind
// sentinels or as a cluster.
package redis

import (
	"errors"
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/rueidis"
)

// Check returns an error if an address cannot be parsed. The error never contains
// the address, which may hold a password.
func Check(address string) error {
	_, err := parse(address)
	return err
}

var (
	errScheme = errors.New("must begin with redis:// or rediss:// (with +sentinel or +cluster where there are " +
		"several: redis+sentinel://host1:26379,host2:26379/master-name)")
	errAddress = errors.New("is not an address of Redis, such as redis://user:password@host:6379/0")
	errHosts   = errors.New("needs hosts, each with a port from 1 to 65535 or none, such as " +
		"redis+cluster://host1:6379,host2:6379")
	errCluster = errors.New("names a database, but a cluster has only the database 0: leave out what follows the hosts")
	errMaster  = errors.New("needs the name of the master that the sentinels watch: " +
		"redis+sentinel://host1:26379,host2:26379/master-name")
)

const (
	// connectTime bounds dialling and writing where no context does.
	connectTime = time.Second
	// pingEvery is how often a connection that is not used is checked. One that does not
	// answer is closed after connectTime.
	pingEvery = 3 * time.Second
	// masterCheck is how often the sentinels are asked for the master, in addition to
	// the changes that they announce.
	masterCheck = 2 * time.Second
)

// parse reads an address: the form of the client library, and where there is
// more than one host, these separated by commas. Sentinels are followed by the
// name of the master, and by the database where it is not 0.
func parse(address string) (rueidis.ClientOption, error) {
	scheme, rest, found := strings.Cut(address, "://")
	scheme, kind, _ := strings.Cut(scheme, "+")
	if !found || !slices.Contains([]string{"redis", "rediss", "valkey", "valkeys", "unix"}, scheme) ||
		!slices.Contains([]string{"", "cluster", "sentinel"}, kind) {
		return rueidis.ClientOption{}, errScheme
	}
	port := "6379"
	if kind == "sentinel" {
		port = "26379"
	}
	rest, others := splitHosts(rest, port)
	u, err := url.Parse(scheme + "://" + rest)
	if err != nil {
		return rueidis.ClientOption{}, errAddress
	}
	query := u.Query()
	for _, other := range others {
		query.Add("addr", other)
	}
	if kind == "sentinel" && !query.Has("master_set") {
		master, database, _ := strings.Cut(strings.TrimPrefix(u.Path, "/"), "/")
		if master == "" {
			return rueidis.ClientOption{}, errMaster
		}
		query.Set("master_set", master)
		u.Path = "/" + database
		if database == "" {
			u.Path = ""
		}
	}
	u.RawQuery = query.Encode()
	option, err := rueidis.ParseURL(u.String())
	if err != nil {
		return option, errAddress
	}
	if scheme != "unix" && (kind != "" && u.Host == "" || slices.Contains(others, "") ||
		slices.ContainsFunc(option.InitAddress, isNoHost)) {
		return option, errHosts
	}
	if option.SelectDB != 0 && option.Sentinel.MasterSet == "" && (kind == "cluster" || len(option.InitAddress) > 1) {
		return option, errCluster
	}
	option.ClientName = "patchbay"
	option.DisableCache = true
	// Errors are returned at once: a request cannot wait for a second attempt.
	option.DisableRetry = true
	// With pipelining, a call that times out does not close the connection.
	option.AlwaysPipelining = true
	option.PipelineMultiplex = -1 // one connection to each server
	option.Dialer.Timeout = connectTime
	option.Dialer.KeepAlive = pingEvery
	option.ConnWriteTimeout = connectTime
	option.Sentinel.Dialer.Timeout = connectTime
	option.Sentinel.TLSConfig = option.TLSConfig
	option.Sentinel.Username, option.Sentinel.Password = query.Get("sentinel_username"), query.Get("sentinel_password")
	option.Sentinel.TopologyRefreshInterval = masterCheck
	return option, nil
}

// isNoHost reports whether a host with its port can never be connected to.
func isNoHost(address string) bool {
	host, port, err := net.SplitHostPort(address)
	if err != nil || host == "" {
		return true
	}
	number, err := strconv.ParseUint(port, 10, 16)
	return err != nil || number == 0
}

// splitHosts returns an address, given without its scheme, with its first host
// only, and the other hosts. Hosts without a port get the default port.
func splitHosts(rest, port string) (string, []string) {
	end := len(rest)
	if i := strings.IndexAny(rest, "/?#"); i >= 0 {
		end = i
	}
	begin := strings.LastIndexByte(rest[:end], '@') + 1
	hosts := strings.Split(rest[begin:end], ",")
	for i, host := range hosts {
		if _, _, err := net.SplitHostPort(host); err != nil && host != "" {
			hosts[i] = net.JoinHostPort(strings.Trim(host, "[]"), port)
		}
	}
	return rest[:begin] + hosts[0] + rest[end:], hosts[1:]
}
