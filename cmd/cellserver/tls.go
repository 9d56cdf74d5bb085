package main

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"cellserver/cmd/cellserver/options"
)

// certificates holds the TLS configuration that is read from the files of the options.
type certificates struct {
	options options.TLS
	log     *slog.Logger
	config  atomic.Pointer[tls.Config]
}

// openTLS reads the files of the options. It returns nil if TLS is not served.
func openTLS(o options.TLS, log *slog.Logger) (*certificates, error) {
	if o.Port == 0 {
		return nil, nil
	}
	c := &certificates{options: o, log: log}
	return c, c.read()
}

// read reads the files and uses them for new connections, unless something is wrong with them. Open connections keep
// their certificates.
func (c *certificates) read() error {
	o := &c.options
	if o.CertFile == "" || o.KeyFile == "" {
		return errors.New("tls-port needs tls-cert-file and tls-key-file")
	}
	pair, err := readPair(o.CertFile, o.KeyFile)
	if err != nil {
		return err
	}
	// A new configuration has new keys for session tickets, so that no session is resumed for a client whose authority is
	// no longer accepted.
	config := &tls.Config{
		Certificates:                []tls.Certificate{pair},
		MinVersion:                  o.Versions[0],
		MaxVersion:                  o.Versions[len(o.Versions)-1],
		DynamicRecordSizingDisabled: true, // a batch of replies is one record if it fits into one
	}
	if o.CAFile != "" || o.CADir != "" {
		if config.ClientCAs, err = readAuthorities(o.CAFile, o.CADir); err != nil {
			return err
		}
	}
	switch {
	case o.AuthClients == "no":
	case config.ClientCAs == nil:
		return fmt.Errorf("tls-auth-clients %s needs tls-ca-cert-file or tls-ca-cert-dir (or tls-auth-clients no)", o.AuthClients)
	case o.AuthClients == "optional":
		config.ClientAuth = tls.VerifyClientCertIfGiven
	default:
		config.ClientAuth = tls.RequireAndVerifyClientCert
	}
	c.config.Store(config)

	leaf, now := pair.Leaf, time.Now()
	switch {
	case now.After(leaf.NotAfter):
		c.log.Warn("the TLS certificate has expired: clients will refuse it", "file", o.CertFile, "expired", leaf.NotAfter)
	case now.Before(leaf.NotBefore):
		c.log.Warn("the TLS certificate is not valid yet: clients will refuse it", "file", o.CertFile, "valid_from", leaf.NotBefore)
	default:
		c.log.Info("the TLS certificate was read", "file", o.CertFile, "expires", leaf.NotAfter)
	}
	return nil
}

// readAgainOnHangUp reads the files again at each SIGHUP, until stop is called. If something is wrong with them, the
// former certificates stay. Without TLS, SIGHUP is ignored, so that the server survives its terminal.
func (c *certificates) readAgainOnHangUp() (stop func()) {
	if c == nil {
		signal.Ignore(syscall.SIGHUP)
		return func() {}
	}
	asked, quit, done := make(chan os.Signal, 1), make(chan struct{}), make(chan struct{})
	signal.Notify(asked, syscall.SIGHUP)
	go func() {
		defer close(done)
		for {
			select {
			case <-asked:
				if err := c.read(); err != nil {
					c.log.Warn("the TLS certificate was not read again: the one before stays", "error", err)
				}
			case <-quit:
				return
			}
		}
	}()
	return func() {
		signal.Ignore(syscall.SIGHUP) // by default SIGHUP ends the process
		close(quit)
		<-done
	}
}

// readPair reads a certificate and its private key.
func readPair(certFile, keyFile string) (tls.Certificate, error) {
	var none tls.Certificate
	cert, err := os.ReadFile(certFile)
	if err != nil {
		return none, fmt.Errorf("tls-cert-file: %w", err)
	}
	if err := eachCertificate(cert, nil); err != nil {
		return none, fmt.Errorf("tls-cert-file: %s %w", certFile, err)
	}
	key, err := os.ReadFile(keyFile)
	if err != nil {
		return none, fmt.Errorf("tls-key-file: %w", err)
	}
	if bytes.Contains(key, []byte("ENCRYPTED")) {
		return none, fmt.Errorf("tls-key-file: %s has a passphrase: cellserver cannot be told it", keyFile)
	}
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		return none, fmt.Errorf("tls-key-file: %s with the certificate %s: %s", keyFile, certFile, strings.TrimPrefix(err.Error(), "tls: "))
	}
	return pair, nil
}

// readAuthorities reads the certificates of a file and of all files in a directory. Either path may be empty.
func readAuthorities(file, dir string) (*x509.CertPool, error) {
	pool := x509.NewCertPool()
	if file != "" {
		data, err := os.ReadFile(file)
		if err != nil {
			return nil, fmt.Errorf("tls-ca-cert-file: %w", err)
		}
		if err := eachCertificate(data, pool.AddCert); err != nil {
			return nil, fmt.Errorf("tls-ca-cert-file: %s %w", file, err)
		}
	}
	if dir == "" {
		return pool, nil
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("tls-ca-cert-dir: %w", err)
	}
	found := false
	for _, e := range entries {
		name := filepath.Join(dir, e.Name())
		if stat, err := os.Stat(name); errors.Is(err, fs.ErrNotExist) || err == nil && !stat.Mode().IsRegular() {
			continue // a dangling link, or a directory
		}
		data, err := os.ReadFile(name)
		if err != nil {
			return nil, fmt.Errorf("tls-ca-cert-dir: %w", err)
		}
		switch err := eachCertificate(data, pool.AddCert); {
		case err == nil:
			found = true
		case !errors.Is(err, errNoCertificate): // the directory may have other files
			return nil, fmt.Errorf("tls-ca-cert-dir: %s %w", name, err)
		}
	}
	if !found {
		return nil, fmt.Errorf("tls-ca-cert-dir: no file in %s has a certificate in PEM", dir)
	}
	return pool, nil
}

var errNoCertificate = errors.New("has no certificate in PEM")

// eachCertificate calls use, unless it is nil, for each certificate in data. The texts of its errors follow the name of
// a file: "has no ...".
func eachCertificate(data []byte, use func(*x509.Certificate)) error {
	err := errNoCertificate
	for {
		var block *pem.Block
		if block, data = pem.Decode(data); block == nil {
			return err
		}
		if block.Type != "CERTIFICATE" {
			continue
		}
		cert, bad := x509.ParseCertificate(block.Bytes)
		if bad != nil {
			return fmt.Errorf("has a certificate that cannot be read: %w", bad)
		}
		if err = nil; use != nil {
			use(cert)
		}
	}
}
