package agent

import (
	"net"
	"path/filepath"
	"strings"
	"testing"

	"github.com/byssus-hpc/byssus/internal/act/control"
	"github.com/byssus-hpc/byssus/internal/wire/client"
)

// TestSeveral: one rank speaks for others of its node: each is heard, and the one answer is a refusal if one is refused.
func TestSeveral(t *testing.T) {
	var c *clients
	heard := make(chan control.Asked, 10)
	say := func(m control.Message) {
		asked := m.Body.(control.Asked)
		heard <- asked
		told := control.Told{Number: asked.Number}
		if asked.Rank == 2 {
			told.Answered = client.Refusal("not this one")
		}
		go c.told(told)
	}
	c, err := listenToClients([]string{filepath.Join(t.TempDir(), "own", "s")}, say, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer c.close()
	written := func(rank uint32, flags uint32) client.Asked {
		return client.Asked{Request: client.Request{Type: client.ReqWritten, Rank: rank, Run: 1, Dataset: 7, Flags: flags}}
	}
	need := client.Asked{Request: client.Request{Type: client.ReqNeed}}
	for _, row := range []struct {
		what  string
		asks  []client.Asked
		ranks int
		why   string
	}{
		{"one", []client.Asked{written(0, 0)}, 1, ""},
		{"three", []client.Asked{written(0, client.FlagNext), written(1, client.FlagNext), written(3, 0)}, 3, ""},
		{"one of them is refused", []client.Asked{written(2, client.FlagNext), written(3, 0)}, 2, "not this one"},
		{"something else", []client.Asked{written(0, client.FlagNext), need}, 0, "request 2 of several: found type 8, wanted 4"},
	} {
		conn, err := net.DialUnix("unixpacket", nil, &net.UnixAddr{Name: c.path(), Net: "unixpacket"})
		if err != nil {
			t.Fatal(err)
		}
		for _, a := range row.asks {
			if _, err := conn.Write(a.Packet()); err != nil {
				t.Fatal(err)
			}
		}
		b := make([]byte, client.MaxPacket)
		n, err := conn.Read(b)
		if err != nil || row.why == "" && n != len(client.Answered{}.Packet()) || !strings.Contains(string(b[:n]), row.why) {
			t.Errorf("%s: the answer is %q, %v, wanted %q", row.what, b[:n], err, row.why)
		}
		conn.Close()
		for i := range row.ranks {
			if got := <-heard; got.Rank != row.asks[i].Rank {
				t.Errorf("%s: rank %d is heard, wanted %d", row.what, got.Rank, row.asks[i].Rank)
			}
		}
		if len(heard) > 0 {
			t.Errorf("%s: more is heard", row.what)
		}
	}
}
