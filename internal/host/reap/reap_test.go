package reap

import (
	"bufio"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// TestKill: the child goes with what it has started.
func TestKill(t *testing.T) {
	cmd := exec.Command("sh", "-c", "sleep 1000 & echo $!; wait")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	c, err := Start(cmd)
	if err != nil {
		t.Fatal(err)
	}
	text, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	grandchild, err := strconv.Atoi(strings.TrimSpace(text))
	if err != nil {
		t.Fatal(err)
	}
	c.Kill()
	if c.Wait() == nil {
		t.Error("the child has ended well")
	}
	if _, err := bufio.NewReader(out).ReadByte(); err == nil { // the pipe is closed when both have ended
		t.Errorf("process %d goes on", grandchild)
	}
}

// TestNotAnother: when the child has been waited for its number is another's, which is not killed.
func TestNotAnother(t *testing.T) {
	short := exec.Command("true")
	short.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	c, err := Start(short)
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Wait(); err != nil {
		t.Fatal(err)
	}
	another := exec.Command("sleep", "1000")
	another.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := another.Start(); err != nil {
		t.Fatal(err)
	}
	c.cmd.Process = another.Process // as if the kernel had given it the same number
	c.Kill()
	if err := another.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	_ = another.Wait() // killed by us
	if ws := another.ProcessState.Sys().(syscall.WaitStatus); ws.Signal() != syscall.SIGTERM {
		t.Errorf("it was killed by %v", ws.Signal())
	}
}
