package main

import (
	"io"
	"os"
	"path/filepath"

	"cellserver/persistence"
	"cellserver/resp"
)

// usersFile is the path of the file of users, for the option aclfile.
type usersFile string

// aclFile returns the file of users at path, or nil if path is empty.
func aclFile(path string) resp.ACLFile {
	if path == "" {
		return nil
	}
	return usersFile(path)
}

func (f usersFile) Name() string          { return string(f) }
func (f usersFile) Read() ([]byte, error) { return os.ReadFile(string(f)) }

func (f usersFile) Write(b []byte) error {
	return persistence.WriteDurably(persistence.OS, "acl", filepath.Dir(string(f)), filepath.Base(string(f)),
		func(w io.Writer) error {
			_, err := w.Write(b)
			return err
		})
}
