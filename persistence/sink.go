package persistence

import "cellserver/buckets"

// Sink is a snapshot file that is made of keys from elsewhere. It has its name once it is closed, and none before.
type Sink struct {
	r       *Replacement
	out     *Writer
	payload []byte
	count   int
}

// CreateSnapshot begins a snapshot file of generation 0. now is in nanoseconds of Unix time.
func CreateSnapshot(fsys FS, dir, name string, now int64) (*Sink, error) {
	r, err := Replace(fsys, "sink", dir, name)
	if err != nil {
		return nil, err
	}
	out, err := NewWriter(r, SnapshotFile, now, 0)
	if err != nil {
		r.Abort()
		return nil, err
	}
	return &Sink{r: r, out: out}, nil
}

// Set adds the TAT of a key, in nanoseconds of Unix time. Of a key that is added twice the later one counts, or, where
// several processors load the file, either.
func (s *Sink) Set(key []byte, tat int64) error {
	s.payload = AppendSet(s.payload, &buckets.Entry{Key: key, State: buckets.Throttled(tat)})
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

// Close makes the file whole and durable, and gives it its name. On an error there is no file.
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

// Abort gives the file up.
func (s *Sink) Abort() error {
	s.r.Abort()
	return nil
}
