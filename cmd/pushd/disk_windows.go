package main

import "golang.org/x/sys/windows"

// freeSpace is what the user of this process may still write to the disk of a
// directory.
func freeSpace(dir string) (free int64, known bool) {
	path, err := windows.UTF16PtrFromString(dir)
	if err != nil {
		return 0, false
	}
	var available uint64
	if err := windows.GetDiskFreeSpaceEx(path, &available, nil, nil); err != nil {
		return 0, false
	}
	return int64(available), true
}
