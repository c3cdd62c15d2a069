package proc

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"sync"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/windows"
)

// Supervise is for Linux only.
func Supervise() int { return 2 }

// killedCode is the exit code of what TerminateJobObject ends.
const killedCode = 137

// jobbed is a program within a job object that ends with its last handle, ours.
type jobbed struct {
	cmd *exec.Cmd

	mu  sync.Mutex
	job windows.Handle
}

// Start starts a program. That it could not be started is told by Wait.
func (s Starter) Start(spec Spec) Process {
	if code, message := checkDir(spec.Dir); code != "" {
		return notStarted(code, message)
	}
	argv, code, message := Resolve(spec.Argv[0], spec.Dir, spec.Env)
	if code != "" {
		return notStarted(code, message)
	}
	p, err := start(spec, append(argv, spec.Argv[1:]...))
	if err != nil {
		return notStarted("start", err.Error())
	}
	return p
}

func start(spec Spec, argv []string) (Process, error) {
	job, err := newJob()
	if err != nil {
		return nil, err
	}
	cmd, err := suspended(spec, argv)
	if err != nil {
		return nil, errors.Join(err, windows.CloseHandle(job))
	}
	if err := hold(job, uint32(cmd.Process.Pid)); err != nil {
		err = errors.Join(err, cmd.Process.Kill(), windows.CloseHandle(job))
		_ = cmd.Wait() // it was killed
		return nil, err
	}
	return &jobbed{cmd: cmd, job: job}, nil
}

// suspended begins a program that does nothing yet: no child may be born before
// the job holds it.
func suspended(spec Spec, argv []string) (*exec.Cmd, error) {
	enclose()
	cmd := exec.CommandContext(context.Background(), argv[0], argv[1:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr, cmd.Dir = spec.Stdin, spec.Stdout, spec.Stderr, spec.Dir
	cmd.Env = append(append([]string(nil), spec.Env...), MarkName+"="+spec.Mark)
	cmd.WaitDelay = waitDelay
	cmd.SysProcAttr = &syscall.SysProcAttr{
		HideWindow:    true,
		CreationFlags: windows.CREATE_SUSPENDED | windows.CREATE_NEW_PROCESS_GROUP,
	}
	return cmd, cmd.Start()
}

// enclose puts this process into a job of its own, once, in which all that it
// starts is born: an agent that is killed before a program is in its own job would
// leave it there, suspended for ever. Its handle is closed by the end of the
// process. Where jobs cannot be nested there is that gap.
var enclose = sync.OnceFunc(func() {
	if job, err := newJob(); err == nil {
		_ = windows.AssignProcessToJobObject(job, windows.CurrentProcess())
	}
})

func newJob() (windows.Handle, error) {
	job, err := windows.CreateJobObject(nil, nil)
	if err != nil {
		return 0, fmt.Errorf("job object: %w", err)
	}
	var info windows.JOBOBJECT_EXTENDED_LIMIT_INFORMATION
	info.BasicLimitInformation.LimitFlags = windows.JOB_OBJECT_LIMIT_KILL_ON_JOB_CLOSE // and no breakaway
	_, err = windows.SetInformationJobObject(job, windows.JobObjectExtendedLimitInformation,
		uintptr(unsafe.Pointer(&info)), uint32(unsafe.Sizeof(info)))
	if err != nil {
		return 0, errors.Join(fmt.Errorf("job object: %w", err), windows.CloseHandle(job))
	}
	return job, nil
}

// hold puts a suspended program into its job and lets it go on.
func hold(job windows.Handle, pid uint32) error {
	const access = windows.PROCESS_SET_QUOTA | windows.PROCESS_TERMINATE
	process, err := windows.OpenProcess(access, false, pid)
	if err != nil {
		return fmt.Errorf("open process: %w", err)
	}
	defer windows.CloseHandle(process)
	if err := windows.AssignProcessToJobObject(job, process); err != nil {
		return fmt.Errorf("assign to job: %w", err)
	}
	return resume(pid)
}

// resume wakes the threads of a process: there is one yet.
func resume(pid uint32) error {
	snapshot, err := windows.CreateToolhelp32Snapshot(windows.TH32CS_SNAPTHREAD, 0)
	if err != nil {
		return fmt.Errorf("threads: %w", err)
	}
	defer windows.CloseHandle(snapshot)
	entry := windows.ThreadEntry32{}
	entry.Size = uint32(unsafe.Sizeof(entry))
	found := false
	for err = windows.Thread32First(snapshot, &entry); err == nil; err = windows.Thread32Next(snapshot, &entry) {
		if entry.OwnerProcessID != pid {
			continue
		}
		thread, err := windows.OpenThread(windows.THREAD_SUSPEND_RESUME, false, entry.ThreadID)
		if err != nil {
			return fmt.Errorf("open thread: %w", err)
		}
		_, err = windows.ResumeThread(thread)
		if err = errors.Join(err, windows.CloseHandle(thread)); err != nil {
			return fmt.Errorf("resume: %w", err)
		}
		found = true
	}
	if !found {
		return errors.New("resume: the process has no thread")
	}
	return nil
}

// Stop sends CTRL_BREAK to the program's group, by way of the console that it
// has inherited. Where there is none it cannot be asked.
func (p *jobbed) Stop() {
	if p.alive() == 0 {
		return // the number may be another's by now
	}
	if windows.GenerateConsoleCtrlEvent(windows.CTRL_BREAK_EVENT, uint32(p.cmd.Process.Pid)) != nil {
		p.Kill()
	}
}

// Kill ends all that is in the job.
func (p *jobbed) Kill() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.job != 0 {
		_ = windows.TerminateJobObject(p.job, killedCode) // what is empty is ended
	}
}

func (p *jobbed) Wait() (exit Exit) {
	state, err := p.cmd.Process.Wait() // before the pipes: others may hold them
	exit.Swept = max(p.alive(), 0)
	p.Kill()
	_ = p.cmd.Wait() // its error is that of a process waited for; it reads the pipes to their end
	if err == nil {
		exit.Code = state.ExitCode()
	}
	deadline := time.Now().Add(waitDelay)
	for exit.Left = p.alive(); exit.Left > 0 && time.Now().Before(deadline); exit.Left = p.alive() {
		time.Sleep(10 * time.Millisecond)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	_ = windows.CloseHandle(p.job)
	p.job = 0
	return exit
}

// accounting is JOBOBJECT_BASIC_ACCOUNTING_INFORMATION.
type accounting struct {
	user, kernel, periodUser, periodKernel int64 // 100 ns
	faults, total, active, terminated      uint32
}

func (p *jobbed) account() (a accounting, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.job == 0 {
		return a, false
	}
	const basicAccounting = 1
	err := windows.QueryInformationJobObject(p.job, basicAccounting, uintptr(unsafe.Pointer(&a)), uint32(unsafe.Sizeof(a)), nil)
	return a, err == nil
}

func (p *jobbed) alive() int {
	a, _ := p.account()
	return int(a.active)
}

func (p *jobbed) CPU() time.Duration {
	a, _ := p.account()
	return time.Duration(a.user+a.kernel) * 100
}

// SweepOld has nothing to do: a job ends with its agent.
func SweepOld(string) (swept, left int) { return 0, 0 }
