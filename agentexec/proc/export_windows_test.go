package proc

// StartHalf begins a program as Start does and leaves it before its job holds it.
func StartHalf(spec Spec) (pid int, err error) {
	cmd, err := suspended(spec, spec.Argv)
	if err != nil {
		return 0, err
	}
	return cmd.Process.Pid, nil
}
