package snapshot

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"syscall"
)

// A member's part of a snapshot is a file (docs/format/snapshot.md).
const (
	magic       = 0x50414e5359420001 // version 1
	page        = 4096
	mostRegions = 4096
)

type head struct {
	Magic, Tag      uint64
	Member, Members uint32
	Regions         uint64
}

type entry struct{ ID, Bytes, At uint64 }

// table says where the regions lie in the file, and how long it is.
func (s *Snapshots) table() (list []entry, end int64) {
	at := up(uint64(binary.Size(head{})) + uint64(len(s.regions)*binary.Size(entry{})))
	for _, r := range s.regions {
		list = append(list, entry{uint64(r.ID), uint64(len(r.Bytes)), at})
		end = int64(at) + int64(len(r.Bytes))
		at = up(uint64(end))
	}
	return list, end
}

func up(n uint64) uint64 { return (n + page - 1) / page * page }

func (s *Snapshots) path(dir string) string {
	return filepath.Join(dir, fmt.Sprintf("member-%d", s.group.Member))
}

// write puts the regions where the next snapshot is to be.
func (s *Snapshots) write(tag uint64) error {
	switch err := os.Mkdir(s.dir, 0o700); {
	case errors.Is(err, os.ErrNotExist):
		return fmt.Errorf("%w: its directory is gone, as when the program was restored from a checkpoint of its processes: %w", err, ErrFailed)
	case err != nil && !errors.Is(err, os.ErrExist):
		return err
	}
	f, err := os.OpenFile(s.path(s.dir), os.O_WRONLY|os.O_CREATE|syscall.O_NOFOLLOW, 0o600)
	if err != nil {
		return err
	}
	list, end := s.table()
	b, err := binary.Append(nil, binary.LittleEndian, head{magic, tag, uint32(s.group.Member), uint32(s.group.Members), uint64(len(list))})
	if err == nil {
		b, err = binary.Append(b, binary.LittleEndian, list)
	}
	if err == nil {
		_, err = f.WriteAt(b, 0)
	}
	if err == nil {
		err = s.writeRegions(f, list, false)
	}
	if err != nil || !slices.ContainsFunc(s.regions, func(r Region) bool { return r.HandOver }) {
		return complete(f, end, err)
	}
	copied := make(chan error, 1)
	s.copied = copied
	go func() { copied <- complete(f, end, s.writeRegions(f, list, true)) }()
	return nil
}

// writeRegions writes those that are handed over, or the others.
func (s *Snapshots) writeRegions(f *os.File, list []entry, handed bool) error {
	for i, r := range s.regions {
		if r.HandOver != handed {
			continue
		}
		if _, err := f.WriteAt(r.Bytes, int64(list[i].At)); err != nil {
			return err
		}
	}
	return nil
}

// complete ends the writing of a file.
func complete(f *os.File, end int64, err error) error {
	if err == nil {
		err = f.Truncate(end)
	}
	if err = errors.Join(err, f.Close()); errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) {
		return fmt.Errorf("%w: %w", err, ErrRoom)
	}
	return err
}

// read gives the regions the bytes of a snapshot, if it is of such regions.
func (s *Snapshots) read(dir string) (tag uint64, err error) {
	f, err := os.OpenFile(s.path(dir), os.O_RDONLY|syscall.O_NOFOLLOW, 0)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	var h head
	in := io.NewSectionReader(f, 0, page*page)
	if err := binary.Read(in, binary.LittleEndian, &h); err != nil {
		return 0, err
	}
	if h.Magic != magic || h.Member != uint32(s.group.Member) || h.Regions > mostRegions {
		return 0, fmt.Errorf("%s: is no part of member %d", f.Name(), s.group.Member)
	}
	stored := make([]entry, h.Regions)
	if err := binary.Read(in, binary.LittleEndian, stored); err != nil {
		return 0, err
	}
	var of []Length
	for _, e := range stored {
		of = append(of, Length{uint32(e.ID), int64(e.Bytes)})
	}
	if err := s.make(of); err != nil {
		return 0, err
	}
	list, _ := s.table()
	if len(stored) != len(list) {
		return 0, fmt.Errorf("member %d: found %d regions, wanted the snapshot's %d: %w", s.group.Member, len(list), h.Regions, ErrDiffer)
	}
	for i, e := range stored {
		if e != list[i] {
			return 0, fmt.Errorf("member %d: found region %d of %d bytes, wanted the snapshot's %d of %d: %w", s.group.Member, list[i].ID, list[i].Bytes, e.ID, e.Bytes, ErrDiffer)
		}
	}
	for i, e := range list {
		if s.regions[i].Leave {
			continue
		}
		if _, err := f.ReadAt(s.regions[i].Bytes, int64(e.At)); err != nil {
			return 0, err
		}
	}
	return h.Tag, nil
}
