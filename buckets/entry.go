package buckets

// Entry is a key and all that is stored of it: what goes to disk and comes back. Times are nanoseconds of Unix time.
type Entry struct {
	Key      []byte
	Kind     Kind
	Deadline int64 // that ExpireAt set; 0 is none

	TAT    int64       // Throttle
	Window WindowState // Window
	Log    Log         // Slide; never empty, but in an amendment
	Kept   Kept        // Slide, in an amendment: where records remain of those that were told before
}
