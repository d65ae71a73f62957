package input

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// TestMain lets the test binary play a shell with a terminal, and its job.
func TestMain(m *testing.M) {
	switch os.Getenv("INPUT_TEST_ROLE") {
	case "shell":
		shell()
	case "job":
		reader()
	default:
		os.Exit(m.Run())
	}
}

// shell starts a job in the background, and gives it the terminal when there is something to read for it.
func shell() {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "INPUT_TEST_ROLE=job")
	cmd.Stdin, cmd.Stderr = os.Stdin, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	said := bufio.NewScanner(out)
	if err == nil && !said.Scan() { // it is about to read
		err = said.Err()
	}
	fmt.Println(said.Text())
	if err == nil {
		_, err = unix.Poll([]unix.PollFd{{Fd: 0, Events: unix.POLLIN}}, -1)
	}
	for n := 0; err == nil && n < 3; n++ { // it has time to be stopped, if it will
		var stopped syscall.WaitStatus
		time.Sleep(100 * time.Millisecond)
		if pid, _ := syscall.Wait4(cmd.Process.Pid, &stopped, syscall.WNOHANG|syscall.WUNTRACED, nil); pid > 0 {
			err = fmt.Errorf("the job in the background: %#x", stopped)
		}
	}
	signal.Ignore(syscall.SIGTTOU)
	if err == nil {
		err = unix.IoctlSetPointerInt(0, unix.TIOCSPGRP, cmd.Process.Pid)
	}
	if err == nil && said.Scan() {
		fmt.Println(said.Text())
	}
	if err != nil {
		fmt.Println(err)
	}
	os.Exit(0)
}

func reader() {
	s, err := NewSource(os.Stdin)
	if err == nil {
		fmt.Println("reads")
		b := make([]byte, 100)
		n := 0
		n, err = s.Read(b)
		fmt.Printf("has read %s\n", strconv.Quote(string(b[:n])))
	}
	if err != nil {
		fmt.Println(err)
	}
	os.Exit(0)
}

// terminal is a new one: the side of who sits in front of it, and the other.
func terminal(t *testing.T) (user, line *os.File) {
	t.Helper()
	user, err := os.OpenFile("/dev/ptmx", os.O_RDWR|syscall.O_NOCTTY|syscall.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { user.Close() })
	ok(t, unix.IoctlSetPointerInt(int(user.Fd()), unix.TIOCSPTLCK, 0))
	n := must[int](t)(unix.IoctlGetInt(int(user.Fd()), unix.TIOCGPTN))
	line = must[*os.File](t)(os.OpenFile("/dev/pts/"+strconv.Itoa(n), os.O_RDWR|syscall.O_NOCTTY|syscall.O_CLOEXEC, 0))
	t.Cleanup(func() { line.Close() })
	return user, line
}

// TestBackground: who runs in the background of a terminal is not stopped, and reads when it is in the foreground.
func TestBackground(t *testing.T) {
	user, line := terminal(t)
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "INPUT_TEST_ROLE=shell")
	cmd.Stdin, cmd.Stderr = line, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true, Pdeathsig: syscall.SIGKILL}
	out, err := cmd.StdoutPipe()
	ok(t, err)
	ok(t, cmd.Start())
	hang := time.AfterFunc(time.Minute, func() { _ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) })
	defer hang.Stop()
	said := bufio.NewScanner(out)
	if !said.Scan() || said.Text() != "reads" {
		t.Fatalf("%q, %v, wanted reads", said.Text(), said.Err())
	}
	must[int](t)(user.WriteString("a word\n"))
	var rest []string
	for said.Scan() {
		rest = append(rest, said.Text())
	}
	_ = cmd.Wait() // it has said all
	if got := strings.Join(rest, "; "); got != `has read "a word\n"` {
		t.Errorf("%q, wanted what was typed", got)
	}
}
