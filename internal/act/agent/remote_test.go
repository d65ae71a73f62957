package agent

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"net"
	"strings"
	"testing"

	"github.com/byssus-hpc/byssus/internal/act/control"
)

// TestBrief: a brief is one line, and of this version; what another version has written is not looked at.
func TestBrief(t *testing.T) {
	good, err := json.Marshal(Brief{Byssus: "1.2", Node: "one", Term: 7})
	if err != nil {
		t.Fatal(err)
	}
	in := strings.NewReader(string(good) + "\nwhat rank 0 reads")
	b, err := ReadBrief(in, "1.2")
	if err != nil || b.Node != "one" || b.Term != 7 || in.Len() != len("what rank 0 reads") {
		t.Errorf("%+v, %d bytes left, %v", b, in.Len(), err)
	}
	for name, k := range map[string]struct{ line, want string }{
		"older":       {`{"Byssus":"1.1","Node":"one","Term":"seven","Identity":7}` + "\n", "node one: byssus is 1.2 here, the job's is 1.1: another version of byssus"},
		"newer":       {`{"Byssus":"1.3","Node":"one","Cache":{}}` + "\n", "node one: byssus is 1.2 here, the job's is 1.3: another version of byssus"},
		"no version":  {"{}\n", "node : byssus is 1.2 here, the job's is : another version of byssus"},
		"damaged":     {`{"Byssus":"1.2","Node":"one","Term":"seven"}` + "\n", "standard input: json: cannot unmarshal string"},
		"nothing":     {"", "found 0 bytes and EOF, wanted a line from byssus run"},
		"no end":      {"{", "found 1 bytes and EOF, wanted a line"},
		"no end ever": {strings.Repeat(" ", longestBrief+1), "no end of line in 1048576 bytes"},
		"no brief":    {"hello\n", "standard input: invalid character"},
	} {
		if _, err := ReadBrief(strings.NewReader(k.line), "1.2"); err == nil || !strings.Contains(err.Error(), k.want) {
			t.Errorf("%s: found %v, wanted %q", name, err, k.want)
		} else if errors.Is(err, control.ErrVersion) != strings.Contains(k.want, "another version") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestFalseCoordinator: an agent does not speak with who cannot prove to be the coordinator of its job, and does not try again.
func TestFalseCoordinator(t *testing.T) {
	job, other := authority(t), authority(t)
	self, err := other.Coordinator()
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	came := make(chan error)
	go func() {
		defer close(came)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			_, _, err = control.Accept(context.Background(), c, self, control.DefaultPatience)
			c.Close()
			came <- err
		}
	}()
	id, err := job.Node("one")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() {
		_, err := dialAny(&Brief{Coordinator: []string{l.Addr().String()}, Identity: id, Patience: control.DefaultPatience})
		done <- err
	}()
	if err := <-came; err == nil {
		t.Error("a false coordinator has an agent")
	}
	err = <-done
	if wrong := new(tls.CertificateVerificationError); !errors.As(err, &wrong) || !strings.Contains(err.Error(), "is not the coordinator of this job") {
		t.Errorf("found %v", err)
	}
	l.Close()
	if err, again := <-came; again {
		t.Errorf("the agent has tried again: %v", err)
	}
}

func authority(t *testing.T) *control.Authority {
	t.Helper()
	a, err := control.NewAuthority()
	if err != nil {
		t.Fatal(err)
	}
	return a
}
