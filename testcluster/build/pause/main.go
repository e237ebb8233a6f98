// Command pause holds the namespaces of a pod. Where its pod shares one process namespace it is the first process
// there, so it waits for orphans. In Go, so that the test cluster needs no C compiler.
package main

import (
	"os"
	"os/signal"
	"syscall"
)

func main() {
	signals := make(chan os.Signal, 16)
	signal.Notify(signals, syscall.SIGCHLD, syscall.SIGINT, syscall.SIGTERM)
	for received := range signals {
		if received != syscall.SIGCHLD {
			return
		}
		reap()
	}
}

// reap collects every child that has ended.
func reap() {
	for {
		pid, err := syscall.Wait4(-1, nil, syscall.WNOHANG, nil)
		if err == syscall.EINTR {
			continue
		}
		if err != nil || pid <= 0 {
			return
		}
	}
}
