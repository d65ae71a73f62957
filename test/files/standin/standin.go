// Package standin plays the agent of one node for programs that hand files to be kept: what internal/wire/client defines, in memory, with
// directories for the files and without any redundancy. It is for tests of what talks to agents.
//
// It guarantees that each request is answered, that what it was told is there to be looked at (Seen), and that a dataset counts only when
// all ranks have said that theirs is valid and the files on the disk are those that they have told of.
package standin

import (
	"cmp"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"

	"github.com/byssus-hpc/byssus/internal/wire/client"
)

// An Agent listens on a socket until it is closed.
type Agent struct {
	Socket string // what BYSSUS_CLIENTS is to be
	cache  string

	mu   sync.Mutex
	said Said
	seen []client.Asked
	told int // conversations
	runs uint64
	jobs map[uint64]*run
	sets []*set
	l    *net.UnixListener
}

// Said is what the agent is to say, chosen by a test.
type Said struct {
	Bypass bool                                 // files are written to the prefix
	Needed bool                                 // a checkpoint is due
	Exit   string                               // why the program should end; "": it should not
	After  int                                  // of that: datasets that count before it is said
	Refuse func(ask *client.Asked) (why string) // "": not; nil: nothing is refused
	Hangup func(ask *client.Asked) bool         // the connection ends without an answer; nil: none does
	Others []string                             // further settings in force
	Pieces bool                                 // each string of an answer comes in a message of its own
	Node   uint32                               // on which all ranks are told that they run; 0: each speaks for itself
}

// A run is a program that has begun.
type run struct {
	prefix string
	nranks uint32
	joined map[uint32]bool
	ended  bool
}

// A set is a dataset.
type set struct {
	Number         uint64
	Name           string
	Flags          uint32
	dir, prefix    string
	nranks, told   uint32
	files          map[uint32][]string // paths below the prefix, by rank
	invalid, Valid bool                // Valid: it counts
	failed         bool                // it could not be read
}

// Start listens below a directory, in which files are kept as well.
func Start(dir string) (*Agent, error) {
	a := &Agent{Socket: filepath.Join(dir, "s"), cache: filepath.Join(dir, "cache"), jobs: map[uint64]*run{}}
	if err := os.MkdirAll(a.cache, 0o700); err != nil {
		return nil, fmt.Errorf("standin: %w", err)
	}
	l, err := net.ListenUnix("unixpacket", &net.UnixAddr{Name: a.Socket, Net: "unixpacket"})
	if err != nil {
		return nil, fmt.Errorf("standin: %w", err)
	}
	a.l = l
	go func() {
		for {
			c, err := l.AcceptUnix()
			if err != nil {
				return // it is closed
			}
			go a.converse(c)
		}
	}()
	return a, nil
}

// Close ends listening.
func (a *Agent) Close() { _ = a.l.Close() }

// Say changes what the agent says.
func (a *Agent) Say(s Said) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.said = s
}

// Seen returns the requests of some types that came so far, all if none is named.
func (a *Agent) Seen(types ...uint16) []client.Asked {
	a.mu.Lock()
	defer a.mu.Unlock()
	var list []client.Asked
	for _, s := range a.seen {
		if len(types) == 0 || slices.Contains(types, s.Type) {
			list = append(list, s)
		}
	}
	return list
}

// Valid returns the names of the datasets that count, oldest first.
func (a *Agent) Valid() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	var names []string
	for _, s := range a.sets {
		if s.Valid {
			names = append(names, s.Name)
		}
	}
	return names
}

// Ended says how many programs have begun and ended.
func (a *Agent) Ended() (begun, ended int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, r := range a.jobs {
		begun++
		if r.ended {
			ended++
		}
	}
	return begun, ended
}

// Told says how many conversations there were.
func (a *Agent) Told() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.told
}

// converse hears a request, or several of one rank for others, and answers.
func (a *Agent) converse(c *net.UnixConn) {
	defer c.Close()
	var answer client.Answered
	pieces := false
	for next := true; next; {
		ask, err := hear(c)
		if err != nil || ask == nil {
			return // a program that died
		}
		one, hangup, p := a.answer(ask)
		if hangup {
			return
		}
		if answer.Refused == 0 {
			answer, pieces = one, p
		}
		next = ask.Flags&client.FlagNext != 0
	}
	a.mu.Lock()
	a.told++
	a.mu.Unlock()
	text := [][]string{answer.Text}
	if pieces && len(answer.Text) > 1 {
		text = nil
		for _, s := range answer.Text {
			text = append(text, []string{s})
		}
	}
	for i, t := range text {
		part := answer
		part.Text = t
		if i < len(text)-1 {
			part.Flags |= client.FlagMore
		}
		if _, err := c.Write(part.Packet()); err != nil {
			return // it died
		}
	}
}

// hear puts together the messages of a request. The other side must be of this user.
func hear(c *net.UnixConn) (*client.Asked, error) {
	raw, err := c.SyscallConn()
	if err != nil {
		return nil, err
	}
	var cred *syscall.Ucred
	var failed error
	if err := raw.Control(func(fd uintptr) {
		cred, failed = syscall.GetsockoptUcred(int(fd), syscall.SOL_SOCKET, syscall.SO_PEERCRED)
	}); err != nil {
		return nil, err
	}
	if failed != nil || int(cred.Uid) != os.Geteuid() {
		return nil, fmt.Errorf("standin: a stranger: %v", failed)
	}
	var whole *client.Asked
	b := make([]byte, client.MaxPacket+1)
	for {
		n, err := c.Read(b)
		if err != nil {
			return nil, err
		}
		part, err := client.Parse(b[:n])
		if err != nil {
			return nil, err
		}
		if whole == nil {
			whole = part
		} else {
			whole.Text = append(whole.Text, part.Text...)
		}
		if part.Flags&client.FlagMore == 0 {
			whole.Flags &^= client.FlagMore
			return whole, nil
		}
	}
}

func (a *Agent) answer(ask *client.Asked) (answer client.Answered, hangup, pieces bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.seen = append(a.seen, *ask)
	if a.said.Hangup != nil && a.said.Hangup(ask) {
		return answer, true, false
	}
	if a.said.Refuse != nil {
		if why := a.said.Refuse(ask); why != "" {
			return client.Refusal(why), false, false
		}
	}
	do := map[uint16]func(*client.Asked) (client.Answered, error){
		client.ReqBegin: a.begin, client.ReqJoin: a.join, client.ReqOpen: a.open, client.ReqWritten: a.written, client.ReqNewest: a.newest,
		client.ReqFetch: a.fetch, client.ReqRead: a.read, client.ReqNeed: a.need, client.ReqExit: a.exit, client.ReqCurrent: a.current,
		client.ReqDrop: a.drop, client.ReqDelete: a.drop, client.ReqConfig: config, client.ReqEnd: a.end,
	}[ask.Type]
	if do == nil {
		return client.Refusal(fmt.Sprintf("request %d is not known", ask.Type)), false, false
	}
	answer, err := do(ask)
	if err != nil {
		return client.Refusal(err.Error()), false, false
	}
	return answer, false, a.said.Pieces
}

// setting is the value of a setting in a request's text: of the environment first.
func setting(text []string, name string) (string, bool) {
	for _, from := range []string{"E ", "C "} {
		for _, s := range text {
			if v, ok := strings.CutPrefix(s, from+name+"="); ok {
				return v, true
			}
		}
	}
	return "", false
}

func (a *Agent) begin(ask *client.Asked) (client.Answered, error) {
	if len(ask.Text) == 0 || !filepath.IsAbs(ask.Text[0]) {
		return client.Answered{}, fmt.Errorf("no working directory")
	}
	prefix, _ := setting(ask.Text, "SCR_PREFIX")
	if prefix = cmp.Or(prefix, ask.Text[0]); !filepath.IsAbs(prefix) {
		prefix = filepath.Join(ask.Text[0], prefix)
	}
	prefix = filepath.Clean(prefix)
	a.runs++
	a.jobs[a.runs] = &run{prefix: prefix, nranks: ask.NRanks, joined: map[uint32]bool{}}
	text := []string{"SCR_PREFIX=" + prefix}
	if enable, ok := setting(ask.Text, "SCR_ENABLE"); ok {
		text = append(text, "SCR_ENABLE="+enable)
	}
	return client.Answered{Answer: client.Answer{Run: a.runs}, Text: append(text, a.said.Others...)}, nil
}

// job is the program that a request is of.
func (a *Agent) job(ask *client.Asked) (*run, error) {
	r := a.jobs[ask.Run]
	if r == nil || r.ended || ask.NRanks != r.nranks || ask.Rank >= r.nranks {
		return nil, fmt.Errorf("run %d, rank %d of %d: no such program", ask.Run, ask.Rank, ask.NRanks)
	}
	return r, nil
}

func (a *Agent) join(ask *client.Asked) (client.Answered, error) {
	r, err := a.job(ask)
	if err == nil && r.joined[ask.Rank] {
		err = fmt.Errorf("rank %d has joined already", ask.Rank)
	}
	if err == nil {
		r.joined[ask.Rank] = true
	}
	return client.Answered{Answer: client.Answer{Node: a.said.Node}}, err
}

func (a *Agent) end(ask *client.Asked) (client.Answered, error) {
	r, err := a.job(ask)
	if err == nil {
		r.ended = true
	}
	return client.Answered{}, err
}

func (a *Agent) need(ask *client.Asked) (client.Answered, error) {
	_, err := a.job(ask)
	var answer client.Answered
	if a.said.Needed {
		answer.Valid = 1
	}
	return answer, err
}

func (a *Agent) exit(ask *client.Asked) (client.Answered, error) {
	_, err := a.job(ask)
	var answer client.Answered
	counting := 0
	for _, s := range a.sets {
		if s.Valid {
			counting++
		}
	}
	if a.said.Exit != "" && counting >= a.said.After {
		answer.Valid, answer.Text = 1, []string{a.said.Exit}
	}
	return answer, err
}

// config answers with a setting of the request itself: "NAME", or "NAME=value SUB".
func config(ask *client.Asked) (client.Answered, error) {
	if len(ask.Text) < 2 {
		return client.Answered{}, fmt.Errorf("no name")
	}
	text := ask.Text[:len(ask.Text)-1]
	name := ask.Text[len(ask.Text)-1]
	top, sub, two := strings.Cut(name, " ")
	if !two {
		if v, ok := setting(text, name); ok {
			v, _, _ = strings.Cut(v, " ")
			return client.Answered{Text: []string{v}}, nil
		}
		return client.Answered{}, nil
	}
	for _, s := range text {
		rest, ok := strings.CutPrefix(s, "C "+top+" ")
		for pair := range strings.FieldsSeq(rest) {
			if v, found := strings.CutPrefix(pair, sub+"="); ok && found {
				return client.Answered{Text: []string{v}}, nil
			}
		}
	}
	return client.Answered{}, nil
}

func (a *Agent) open(ask *client.Asked) (client.Answered, error) {
	r, err := a.job(ask)
	if err != nil {
		return client.Answered{}, err
	}
	if len(ask.Text) != 1 || ask.Rank != 0 {
		return client.Answered{}, fmt.Errorf("rank %d gives %d names", ask.Rank, len(ask.Text))
	}
	s := &set{Number: uint64(len(a.sets) + 1), Flags: ask.Flags, nranks: r.nranks, prefix: r.prefix, files: map[uint32][]string{}}
	s.Name = cmp.Or(ask.Text[0], fmt.Sprintf("scr.dataset.%d", s.Number))
	s.dir = filepath.Join(a.cache, fmt.Sprint(s.Number))
	if a.said.Bypass {
		s.dir, s.Flags = r.prefix, s.Flags|client.FlagBypass
	} else if err := os.Mkdir(s.dir, 0o700); err != nil {
		return client.Answered{}, err
	}
	a.sets = append(a.sets, s)
	return client.Answered{Answer: client.Answer{Dataset: s.Number, Flags: s.Flags}, Text: []string{s.Name, s.dir}}, nil
}

// number finds the dataset that a request is about.
func (a *Agent) number(ask *client.Asked) (*set, error) {
	if ask.Dataset == 0 || ask.Dataset > uint64(len(a.sets)) {
		return nil, fmt.Errorf("no dataset %d", ask.Dataset)
	}
	return a.sets[ask.Dataset-1], nil
}

// below are the files of a rank in the cache, below its directory.
func (s *set) below(rank uint32) (files []string, bytes uint64, err error) {
	dir := s.rankDir(rank)
	err = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		bytes += uint64(info.Size())
		files = append(files, strings.TrimPrefix(path, dir+"/"))
		return nil
	})
	if os.IsNotExist(err) {
		err = nil // it has routed no file
	}
	return files, bytes, err
}

func (s *set) rankDir(rank uint32) string {
	return filepath.Join(s.dir, fmt.Sprintf("rank-%05d.files", rank))
}

func (a *Agent) written(ask *client.Asked) (client.Answered, error) {
	s, err := a.number(ask)
	if err != nil {
		return client.Answered{}, err
	}
	files, bytes := ask.Text, ask.Bytes
	if s.Flags&client.FlagBypass == 0 {
		if files, bytes, err = s.below(ask.Rank); err != nil {
			return client.Answered{}, err
		}
	}
	s.told++
	s.files[ask.Rank] = files
	s.invalid = s.invalid || ask.Valid == 0
	if ask.Valid == 1 && (uint64(len(files)) != ask.NFiles || bytes != ask.Bytes) {
		s.invalid = true
		return client.Answered{}, fmt.Errorf("rank %d: found %d files with %d bytes, wanted %d with %d", ask.Rank, len(files), bytes, ask.NFiles, ask.Bytes)
	}
	s.Valid = s.told == s.nranks && !s.invalid
	return client.Answered{}, nil
}

func (a *Agent) newest(ask *client.Asked) (client.Answered, error) {
	if _, err := a.job(ask); err != nil {
		return client.Answered{}, err
	}
	for _, s := range slices.Backward(a.sets) {
		if s.Valid && !s.failed && s.Flags&client.FlagCheckpoint != 0 {
			return client.Answered{Answer: client.Answer{Dataset: s.Number, Flags: s.Flags}, Text: []string{s.Name}}, nil
		}
	}
	return client.Answered{}, nil
}

func (a *Agent) fetch(ask *client.Asked) (client.Answered, error) {
	s, err := a.number(ask)
	if err != nil {
		return client.Answered{}, err
	}
	answer := client.Answered{Answer: client.Answer{Dataset: s.Number, Flags: s.Flags}}
	switch {
	case s.Flags&client.FlagBypass != 0:
		answer.Text = append([]string{s.prefix}, s.files[ask.Rank]...)
	case ask.NRanks == s.nranks:
		answer.Text = append([]string{s.rankDir(ask.Rank)}, s.files[ask.Rank]...)
	default:
		answer.Flags |= client.FlagAny
		answer.Text = []string{s.dir}
		for rank := range s.nranks {
			for _, f := range s.files[rank] {
				answer.Text = append(answer.Text, strings.TrimPrefix(filepath.Join(s.rankDir(rank), f), s.dir+"/"))
			}
		}
	}
	return answer, nil
}

func (a *Agent) read(ask *client.Asked) (client.Answered, error) {
	s, err := a.number(ask)
	if err == nil && ask.Valid == 0 {
		s.failed = true
	}
	return client.Answered{}, err
}

// named is the newest dataset of a name.
func (a *Agent) named(ask *client.Asked) (int, error) {
	for i, s := range slices.Backward(a.sets) {
		if len(ask.Text) == 1 && s.Valid && s.Name == ask.Text[0] {
			return i, nil
		}
	}
	return 0, fmt.Errorf("no dataset %q", ask.Text)
}

// current forgets the datasets behind the named one.
func (a *Agent) current(ask *client.Asked) (client.Answered, error) {
	i, err := a.named(ask)
	if err == nil {
		for _, s := range a.sets[i+1:] {
			s.Valid = false
		}
	}
	return client.Answered{}, err
}

// drop forgets a dataset; its files go if it was asked to delete it.
func (a *Agent) drop(ask *client.Asked) (client.Answered, error) {
	i, err := a.named(ask)
	if err != nil {
		return client.Answered{}, err
	}
	s := a.sets[i]
	s.Valid = false
	if ask.Type == client.ReqDelete && s.Flags&client.FlagBypass == 0 {
		err = os.RemoveAll(s.dir)
	}
	return client.Answered{}, err
}
