package memory

import (
	"math"
	"testing"
	"testing/fstest"
)

func TestDefaultLimitIsDetected(t *testing.T) {
	const machine = "MemFree: 1 kB\nMemTotal:       8388608 kB\n" // 8 GiB
	for name, c := range map[string]struct {
		files map[string]string
		want  int64
	}{
		"nothing is known":    {nil, math.MaxInt64},
		"a machine":           {map[string]string{"proc/meminfo": machine, "proc/self/cgroup": "0::/\n"}, 4 << 30},
		"a container":         {map[string]string{"proc/meminfo": machine, "proc/self/cgroup": "0::/\n", "sys/fs/cgroup/memory.max": "1073741824\n"}, 768 << 20},
		"a container, no end": {map[string]string{"proc/meminfo": machine, "proc/self/cgroup": "0::/\n", "sys/fs/cgroup/memory.max": "max\n"}, 4 << 30},
		"a unit in a slice": {map[string]string{
			"proc/meminfo": machine, "proc/self/cgroup": "0::/system.slice/patchbay.service\n",
			"sys/fs/cgroup/system.slice/memory.max":                  "536870912\n",
			"sys/fs/cgroup/system.slice/patchbay.service/memory.max": "max\n",
		}, 384 << 20},
		"version 1": {map[string]string{
			"proc/meminfo": machine, "proc/self/cgroup": "12:cpu,cpuacct:/docker/a\n5:memory:/docker/a\n0::/docker/a\n",
			"sys/fs/cgroup/memory/docker/a/memory.limit_in_bytes": "1073741824\n",
			"sys/fs/cgroup/memory/memory.limit_in_bytes":          "9223372036854771712\n",
		}, 768 << 20},
		"version 1, the path of the machine": {map[string]string{
			"proc/meminfo": machine, "proc/self/cgroup": "5:memory:/docker/a\n",
			"sys/fs/cgroup/memory/memory.limit_in_bytes": "1073741824\n",
		}, 768 << 20},
		"version 1, no end": {map[string]string{
			"proc/meminfo": machine, "proc/self/cgroup": "5:memory:/\n",
			"sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712\n",
		}, 4 << 30},
		"more than the machine has": {map[string]string{
			"proc/meminfo": machine, "proc/self/cgroup": "0::/\n", "sys/fs/cgroup/memory.max": "17179869184\n",
		}, 4 << 30},
	} {
		t.Run(name, func(t *testing.T) {
			files := fstest.MapFS{}
			for name, text := range c.files {
				files[name] = &fstest.MapFile{Data: []byte(text)}
			}
			if got := detectLimit(files); got != c.want {
				t.Errorf("%d, want %d", got, c.want)
			}
		})
	}
}
