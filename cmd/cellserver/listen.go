package main

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"cellserver/cmd/cellserver/options"
)

// listener is one of the listeners of the program.
type listener struct {
	net.Listener
	secure bool // its connections speak TLS
}

// listen opens all listeners, or none if one fails.
func listen(s options.Settings) (opened []listener, err error) {
	defer func() {
		if err != nil {
			for _, l := range opened {
				l.Close()
			}
			opened = nil
		}
	}()
	if s.Port == 0 && s.TLS.Port == 0 && s.UnixSocket == "" {
		return nil, errors.New("there is nothing to listen on: port and tls-port are 0, and no unixsocket is named")
	}
	if s.Port != 0 && s.Port == s.TLS.Port {
		return nil, fmt.Errorf("port and tls-port are both %d", s.Port)
	}
	for _, tcp := range []struct {
		option string
		port   int64
		secure bool
	}{{"port", s.Port, false}, {"tls-port", s.TLS.Port, true}} {
		if tcp.port == 0 {
			continue
		}
		for _, host := range s.Bind {
			l, err := listenTCP(host, tcp.port, tcp.option)
			if err != nil {
				return opened, err
			}
			if l != nil {
				opened = append(opened, listener{l, tcp.secure})
			}
		}
	}
	if s.UnixSocket != "" {
		l, err := listenUnix(s.UnixSocket, fs.FileMode(s.UnixSocketPerm))
		if err != nil {
			return opened, fmt.Errorf("unixsocket: %w", err)
		}
		opened = append(opened, listener{l, false})
	}
	if len(opened) == 0 {
		return nil, errors.New("bind names no address to listen on")
	}
	return opened, nil
}

// listenTCP listens on the address of one word of bind. It returns nil without an error if the word allows the address
// to be missing, and it is.
func listenTCP(host string, port int64, option string) (net.Listener, error) {
	host, mayBeMissing := strings.CutPrefix(host, "-")
	network := "tcp"
	switch host {
	case "*":
		host, network = "0.0.0.0", "tcp4"
	case "::*":
		host, network = "::", "tcp6"
	}
	address := net.JoinHostPort(host, strconv.FormatInt(port, 10))
	l, err := net.Listen(network, address)
	switch {
	case err == nil:
		return l, nil
	case errors.Is(err, syscall.EADDRINUSE):
		return nil, fmt.Errorf("%s is in use: is another server running? (--%s chooses another)", address, option)
	case mayBeMissing:
		return nil, nil
	}
	return nil, fmt.Errorf("cannot listen on %s: %w", address, err)
}

// longestSocketPath is the length in bytes of the longest path that every system accepts for a Unix socket: macOS accepts
// 103, Linux 107.
const longestSocketPath = 103

// unixListener is a Unix socket. Close removes its file, unless another process has replaced the file.
type unixListener struct {
	*net.UnixListener
	path  string
	file  fs.FileInfo
	close sync.Once
	err   error
}

// listenUnix listens on a Unix socket. It replaces a socket that a server has left behind; a socket that is in use, and
// any other file, are errors. perm has the permissions of the new file; 0 leaves them to the umask.
func listenUnix(path string, perm fs.FileMode) (*unixListener, error) {
	if path[0] == '@' {
		path = "./" + path // Go takes a name that begins with @ for an abstract socket of Linux
	}
	if err := removeStale(path); err != nil {
		return nil, err
	}
	bind := func() (net.Listener, error) { return net.Listen("unix", path) }
	var l net.Listener
	var err error
	if perm == 0 {
		l, err = bind()
	} else {
		l, err = privately(bind) // other users cannot connect before chmod
	}
	switch {
	case errors.Is(err, syscall.EINVAL) && len(path) > longestSocketPath:
		return nil, fmt.Errorf("%s: the path is longer than a socket's may be", path)
	case err != nil:
		return nil, err
	}
	u := &unixListener{UnixListener: l.(*net.UnixListener), path: path}
	if perm != 0 {
		err = os.Chmod(path, perm)
	}
	if err == nil {
		u.file, err = os.Lstat(path)
	}
	if err != nil {
		l.Close()
		return nil, err
	}
	u.SetUnlinkOnClose(false)
	return u, nil
}

// removeStale removes the file of a socket on which no process listens. Any other file is an error.
func removeStale(path string) error {
	file, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case file.Mode().Type() != fs.ModeSocket:
		return fmt.Errorf("%s is there already, and no socket: it is not replaced", path)
	}
	c, err := net.DialTimeout("unix", path, time.Second)
	switch {
	case err == nil:
		c.Close()
		return fmt.Errorf("%s is in use: is another server running?", path)
	case errors.Is(err, syscall.ECONNREFUSED):
		return os.Remove(path)
	}
	return fmt.Errorf("%s is there already, and it is unknown whether it is in use: %w", path, err)
}

// Close ends Accept and removes the socket's file. Further calls return the same error.
func (u *unixListener) Close() error {
	u.close.Do(func() {
		// Remove the file before closing the socket: while the socket is open, no other file can get its inode.
		if now, err := os.Lstat(u.path); err == nil && os.SameFile(now, u.file) {
			u.err = os.Remove(u.path)
		}
		u.err = errors.Join(u.err, u.UnixListener.Close())
	})
	return u.err
}

// tryIt returns a command line that a newcomer can paste into a shell.
func tryIt(l listener, s *options.TLS) string {
	where := ""
	switch a := l.Addr().(type) {
	case *net.UnixAddr:
		where = "-s " + a.Name
	case *net.TCPAddr:
		if !a.IP.IsUnspecified() && !a.IP.Equal(net.IPv4(127, 0, 0, 1)) {
			where = "-h " + a.IP.String() + " "
		}
		where += "-p " + strconv.Itoa(a.Port)
	}
	if l.secure {
		where += " --tls"
		for _, o := range []struct{ flag, file string }{{"--cacert", s.CAFile}, {"--cacertdir", s.CADir}} {
			if o.file != "" {
				where += " " + o.flag + " " + o.file
			}
		}
		if s.AuthClients == "yes" {
			where += " --cert CERTIFICATE --key KEY"
		}
	}
	return "redis-cli " + where + " CL.THROTTLE user123 15 30 60 1"
}
