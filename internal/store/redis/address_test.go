package redis

import (
	"slices"
	"strings"
	"testing"
)

func TestAddresses(t *testing.T) {
	for address, want := range map[string]struct {
		hosts    []string
		master   string
		database int
		password string
		tls      bool
	}{
		"redis://127.0.0.1":                                 {hosts: []string{"127.0.0.1:6379"}},
		"redis://h:7000/3":                                  {hosts: []string{"h:7000"}, database: 3},
		"rediss://u:p%40ss@h:7000":                          {hosts: []string{"h:7000"}, password: "p@ss", tls: true},
		"redis://[::1]:7000/0":                              {hosts: []string{"[::1]:7000"}},
		"redis+cluster://a:1,b:2,c":                         {hosts: []string{"a:1", "b:2", "c:6379"}},
		"redis://a:1?addr=b:2":                              {hosts: []string{"a:1", "b:2"}},
		"redis+sentinel://a:26379,b:26379/counters":         {hosts: []string{"a:26379", "b:26379"}, master: "counters"},
		"rediss+sentinel://:secret@a:1,b:2/counters/4":      {hosts: []string{"a:1", "b:2"}, master: "counters", database: 4, password: "secret", tls: true},
		"redis+sentinel://a:26379/0?master_set=counters":    {hosts: []string{"a:26379"}, master: "counters"},
		"redis+sentinel://a,[::1]/m":                        {hosts: []string{"a:26379", "[::1]:26379"}, master: "m"},
		"redis+sentinel://a:1/m?sentinel_password=other":    {hosts: []string{"a:1"}, master: "m"},
		"unix:///run/redis.sock?db=2":                       {hosts: []string{"/run/redis.sock"}, database: 2},
		"redis://user:pass,word@a:1,b:2?write_timeout=100x": {}, // a mistake in what is given
		"redis://h/zero":                                    {},
		"redis+sentinel://a:1":                              {},
		"redis+sentinel://a:1/0/":                           {hosts: []string{"a:1"}, master: "0"},
		"redis+ring://a:1":                                  {},
		"http://a:1":                                        {},
		"127.0.0.1:6379":                                    {},
		"":                                                  {},
		"redis://%zz":                                       {},
		"redis+cluster://a:1,b:2/3":                         {}, // clusters have one database
		"redis://a:1,b:2/3":                                 {},
		"redis+cluster://a:1/0":                             {hosts: []string{"a:1"}},
		"redis+cluster://":                                  {},
		"redis+sentinel:///m":                               {},
		"redis+cluster://a:1,":                              {},
		"redis://a:65536":                                   {},
		"redis://a:0":                                       {},
		"redis+sentinel://a:1,b:x/m":                        {},
	} {
		option, err := parse(address)
		if len(want.hosts) == 0 {
			if err == nil || strings.Contains(err.Error(), "pass") && !strings.Contains(err.Error(), "user:password@host") {
				t.Errorf("%s: %v", address, err)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", address, err)
			continue
		}
		if !slices.Equal(option.InitAddress, want.hosts) || option.Sentinel.MasterSet != want.master || option.SelectDB != want.database ||
			option.Password != want.password || (option.TLSConfig != nil) != want.tls {
			t.Errorf("%s: %v, master %q, database %d, password %q, TLS %t", address, option.InitAddress, option.Sentinel.MasterSet,
				option.SelectDB, option.Password, option.TLSConfig != nil)
		}
		if !option.DisableRetry || (option.Sentinel.TLSConfig != nil) != want.tls {
			t.Errorf("%s: %+v", address, option)
		}
	}
	if option, _ := parse("redis+sentinel://:a@h:1/m?sentinel_username=u&sentinel_password=p"); option.Password != "a" || option.Sentinel.Username != "u" || option.Sentinel.Password != "p" {
		t.Errorf("%+v", option)
	}
}
