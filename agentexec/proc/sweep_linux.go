package proc

import (
	"bytes"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// How long a sweep goes on: what hangs in the kernel cannot be killed.
const (
	sweepFor   = 10 * time.Second
	sweepPause = 10 * time.Millisecond
)

// process is what /proc tells of one.
type process struct {
	pid, parent int
	zombie      bool
	cpu         time.Duration
}

// tick is the unit of times in /proc; Linux has shown no other for decades.
const tick = 10 * time.Millisecond

// list reads all processes. What ends meanwhile is left out.
func list() map[int]process {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil
	}
	all := make(map[int]process, len(entries))
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		if p, ok := readProcess(pid); ok {
			all[pid] = p
		}
	}
	return all
}

func readProcess(pid int) (process, bool) {
	raw, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return process{}, false
	}
	return parseStat(pid, raw)
}

// parseStat reads a line of /proc/PID/stat. The name in it may hold anything,
// parentheses too.
func parseStat(pid int, raw []byte) (process, bool) {
	end := bytes.LastIndexByte(raw, ')')
	if end < 0 {
		return process{}, false
	}
	fields := strings.Fields(string(raw[end+1:]))
	if len(fields) < 15 {
		return process{}, false
	}
	p := process{pid: pid, zombie: fields[0] == "Z" || fields[0] == "X"}
	var err error
	if p.parent, err = strconv.Atoi(fields[1]); err != nil {
		return process{}, false
	}
	for _, field := range fields[11:15] { // user and system, its own and its dead children's
		n, err := strconv.ParseInt(field, 10, 64)
		if err == nil && n > 0 && n < 1<<50/int64(tick) {
			p.cpu += time.Duration(n) * tick
		}
	}
	return p, true
}

// below are the living descendants of a process.
func below(root int, all map[int]process) (pids []int) {
	children := make(map[int][]int)
	for _, p := range all {
		children[p.parent] = append(children[p.parent], p.pid)
	}
	for queue := children[root]; len(queue) > 0; queue = queue[1:] {
		if !all[queue[0]].zombie {
			pids = append(pids, queue[0])
		}
		queue = append(queue, children[queue[0]]...)
	}
	return pids
}

// markOf is the mark in a process's environment, as it was at its start.
func markOf(pid int) string {
	raw, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/environ")
	if err != nil {
		return ""
	}
	for kv := range bytes.SplitSeq(raw, []byte{0}) {
		if value, ok := bytes.CutPrefix(kv, []byte(MarkName+"=")); ok {
			return string(value)
		}
	}
	return ""
}

// Sweep kills all processes whose mark is ours, again and again until there are
// none: one look misses what is born meanwhile. It never kills itself.
func Sweep(ours func(mark string) bool) (swept, left int) {
	return sweep(func() (pids []int) {
		for pid, p := range list() {
			if pid != os.Getpid() && !p.zombie && ours(markOf(pid)) {
				pids = append(pids, pid)
			}
		}
		return pids
	})
}

// SweepOld kills what an earlier agent of the same directory left: its marks
// begin with key.
func SweepOld(key string) (swept, left int) {
	return Sweep(func(mark string) bool { return strings.HasPrefix(mark, key+".") })
}

// sweepTree kills our descendants and what bears the mark elsewhere.
func sweepTree(mark string) (swept, left int) {
	self := os.Getpid()
	return sweep(func() (pids []int) {
		all := list()
		pids = below(self, all)
		known := make(map[int]bool, len(pids))
		for _, pid := range pids {
			known[pid] = true
		}
		for pid, p := range all {
			if pid != self && !known[pid] && !p.zombie && markOf(pid) == mark {
				pids = append(pids, pid)
			}
		}
		return pids
	})
}

func sweep(find func() []int) (swept, left int) {
	killed := make(map[int]bool)
	deadline := time.Now().Add(sweepFor)
	for {
		pids := find()
		if len(pids) == 0 || time.Now().After(deadline) {
			return len(killed), len(pids)
		}
		for _, pid := range pids {
			if unix.Kill(pid, unix.SIGKILL) == nil {
				killed[pid] = true
			}
		}
		time.Sleep(sweepPause)
	}
}

// cpuOf is the time a tree has used.
func cpuOf(root int) (sum time.Duration) {
	all := list()
	for _, pid := range below(root, all) {
		sum += all[pid].cpu
	}
	return sum
}
