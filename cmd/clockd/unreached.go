package main

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"syscall"

	"github.com/clockd/clockd/client"
)

// explained returns the error of a call for people. It names the server if the server was not reached or is not clockd.
// It wraps the error of the call.
func (f serverFlags) explained(err error) error {
	e, ok := errors.AsType[*client.Error](err)
	if !ok {
		return err
	}
	if text := f.explanation(err, e); text != "" {
		return &explainedError{text, err}
	}
	return err
}

// explainedError is the error of a call in other words.
type explainedError struct {
	text  string
	cause error
}

// Error returns the text.
func (e *explainedError) Error() string { return e.text }

// Unwrap returns the error of the call.
func (e *explainedError) Unwrap() error { return e.cause }

// explanation returns the text for people, "" if err says it itself. e is the error of the client in err.
func (f serverFlags) explanation(err error, e *client.Error) string {
	switch {
	case e.Status == 0 && e.Err != nil:
		advice := ""
		if errors.Is(e.Err, syscall.ECONNREFUSED) {
			advice = "\nis clockd running there? start it with: clockd serve"
			if f.Server != defaultServer {
				advice = "\nis clockd running there? CLOCKD_SERVER or --server names this server; the default is " + defaultServer
			}
		}
		if f.secure() && mayWantCertificate(e.Err) {
			advice = "\nif it wants a certificate of the client, CLOCKD_CERT and CLOCKD_KEY, or --cert and --key, name the files"
			if f.Cert != "" {
				advice = "\nit may not know the authority of the certificate of CLOCKD_CERT or --cert"
			}
		}
		if errors.As(e.Err, new(*tls.CertificateVerificationError)) {
			advice = "\nCLOCKD_CA or --ca names the file with the authority of the server's certificate, the certificate itself if it signs itself"
		}
		return fmt.Sprintf("no response from the server at %s: %s%s", f.shownServer(), reachFailure(e.Err), advice)
	case e.Code == client.CodeUnauthenticated && f.Token == "":
		return err.Error() + "\nno token is given: set CLOCKD_TOKEN, or CLOCKD_TOKEN_FILE to the file of a token"
	case errors.Is(err, client.ErrNotResumed):
		return "connected again: " + client.ErrNotResumed.Error()
	case e.Status != 0 && e.Err != nil:
		return fmt.Sprintf("the server at %s is not clockd: status %d, %s", f.shownServer(), e.Status,
			unreadableReason(e.Err))
	case e.Status == http.StatusBadRequest && e.Code == "" && !f.secure():
		return fmt.Sprintf("the server at %s is not clockd, or it speaks TLS: then the URL must begin with https://",
			f.shownServer())
	case e.Status != 0 && e.Code == "":
		return fmt.Sprintf("the server at %s is not clockd, or a proxy responded for it: status %d %s", f.shownServer(),
			e.Status, http.StatusText(e.Status))
	}
	return ""
}

// tlsAlert returns the alert of TLS with which the server ended the connection, nil if there was none.
func tlsAlert(err error) error {
	if op, is := errors.AsType[*net.OpError](err); is && op.Op == "remote error" {
		return op.Err
	}
	return nil
}

// mayWantCertificate reports whether a server that wants a certificate of the client may have ended the request. Often
// the error has no alert, because the client has sent its request before it reads.
func mayWantCertificate(err error) bool {
	if timeout, is := errors.AsType[net.Error](err); is && timeout.Timeout() {
		return false
	}
	return !errors.Is(err, syscall.ECONNREFUSED) && !errors.As(err, new(*net.DNSError)) &&
		!errors.As(err, new(*tls.CertificateVerificationError)) && !errors.Is(err, http.ErrSchemeMismatch) &&
		!errors.As(err, new(tls.RecordHeaderError))
}

// shownServer returns the server's URL without user, password and parameters.
func (f serverFlags) shownServer() string {
	u, err := url.Parse(f.Server)
	if err != nil {
		return "the URL of CLOCKD_SERVER"
	}
	return u.Scheme + "://" + u.Host + u.EscapedPath()
}

// unreadableReason says why a response cannot be read.
func unreadableReason(err error) string {
	if errors.As(err, new(*json.SyntaxError)) || errors.As(err, new(*json.UnmarshalTypeError)) ||
		errors.Is(err, io.ErrUnexpectedEOF) {
		return "the response is not clockd's JSON"
	}
	return err.Error()
}

// reachFailure says in plain words why a request got no response.
func reachFailure(err error) string {
	if name, is := errors.AsType[*net.DNSError](err); is && name.IsNotFound {
		return fmt.Sprintf("the host %s is not known", name.Name)
	} else if is {
		return "the name server did not resolve " + name.Name
	}
	if certificate, is := errors.AsType[*tls.CertificateVerificationError](err); is {
		return "its certificate is not trusted: " + strings.TrimPrefix(certificate.Err.Error(), "x509: ")
	}
	if alert := tlsAlert(err); alert != nil {
		return "it refuses the connection: " + strings.TrimPrefix(alert.Error(), "tls: ")
	}
	var timeout net.Error
	switch {
	case errors.Is(err, http.ErrSchemeMismatch), errors.As(err, new(tls.RecordHeaderError)):
		return "it does not speak TLS; the URL must begin with http://"
	case errors.Is(err, context.DeadlineExceeded), errors.As(err, &timeout) && timeout.Timeout():
		return fmt.Sprintf("nothing came within %s", clientTimeout)
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return "the connection ended before the response"
	}
	if errno, is := errors.AsType[syscall.Errno](err); is {
		return errno.Error()
	}
	return err.Error()
}
