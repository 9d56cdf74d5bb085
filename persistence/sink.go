package persistence

import "cellserver/buckets"

// Sink writes a snapshot file of keys from another source. The file gets its name when the Sink is closed.
type Sink struct {
	db      int
	r       *Replacement
	out     *Writer
	payload []byte
	count   int
}

// CreateSnapshot begins the snapshot file name in dir, of generation 0, of keys of database db. now is in nanoseconds of
// Unix time. Its errors are those of fsys.
func CreateSnapshot(fsys FS, dir, name string, now int64, db int) (*Sink, error) {
	r, err := Replace(fsys, "sink", dir, name)
	if err != nil {
		return nil, err
	}
	out, err := NewWriter(r, SnapshotFile, now, 0)
	if err != nil {
		r.Abort()
		return nil, err
	}
	return &Sink{db: db, r: r, out: out}, nil
}

// Set adds a THROTTLE key with its TAT in nanoseconds of Unix time. If a key is added twice, loading keeps either TAT.
func (s *Sink) Set(key []byte, tat int64) error {
	s.payload = AppendSet(s.payload, &buckets.Entry{Database: s.db, Key: key, State: buckets.Throttled(tat)})
	if s.count++; len(s.payload) < sectionBytes {
		return nil
	}
	return s.section()
}

func (s *Sink) section() error {
	err := s.out.Records(s.payload, s.count)
	s.payload, s.count = s.payload[:0], 0
	return err
}

// Close completes the file, makes it durable, and gives it its name. On an error no file is left, but see
// Replacement.Commit.
func (s *Sink) Close() error {
	defer s.r.Abort()
	if err := s.section(); err != nil {
		return err
	}
	if err := s.out.End(); err != nil {
		return err
	}
	return s.r.Commit()
}

// Abort removes the unfinished file.
func (s *Sink) Abort() error {
	s.r.Abort()
	return nil
}
