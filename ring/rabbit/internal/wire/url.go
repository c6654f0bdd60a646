package wire

import (
	"errors"
	"net/url"
	"strings"

	amqp "github.com/rabbitmq/amqp091-go"
)

// errURL describes a valid URL. It does not quote the invalid one.
var errURL = errors.New("rabbit: the AMQP URL is not valid: it must be like amqp://user:password@host:5672/vhost (or amqps://, " +
	"or with several hosts of one cluster: host1:5672,host2:5672), with reserved characters in user, password and vhost percent-encoded")

// errHosts describes a valid list of hosts. It does not quote the invalid one.
var errHosts = errors.New("rabbit: the list of hosts in the AMQP URL has an empty host, or a host twice: it must be like host1:5672,host2:5672")

// ParseURL returns the hosts of the URL: at least one, in their order. The hosts differ in host and port only. The
// library's error would quote the URL with its password, so errURL replaces it.
func ParseURL(raw string) ([]*Host, error) {
	if raw == "" {
		return nil, errors.New("rabbit: no AMQP URL is given")
	}
	urls := splitHosts(raw)
	hosts, names := make([]*Host, 0, len(urls)), map[string]bool{}
	for _, one := range urls {
		uri, err := amqp.ParseURI(one)
		if err != nil {
			return nil, errURL
		}
		// the library also parses a password with an unescaped "#", "?" or "/", and takes a part of it as the port
		u, err := url.Parse(one)
		if err != nil || u.Fragment != "" || strings.Contains(u.RawQuery+u.EscapedPath(), "@") {
			return nil, errURL
		}
		host := &Host{url: one, uri: uri}
		if len(urls) > 1 && (u.Hostname() == "" || names[host.Name()]) { // the library takes an empty host as localhost
			return nil, errHosts
		}
		names[host.Name()] = true
		hosts = append(hosts, host)
	}
	return hosts, checkTLS(hosts[0].uri)
}

// splitHosts returns a URL for each host of a URL with a list of hosts. The other parts of the URL are the same in
// each. Neither net/url nor the library can parse such a list.
func splitHosts(raw string) (urls []string) {
	scheme, rest, found := strings.Cut(raw, "://")
	if !found {
		return []string{raw}
	}
	list, tail := rest, ""
	if end := strings.IndexAny(rest, "/?#"); end >= 0 {
		list, tail = rest[:end], rest[end:]
	}
	at := strings.LastIndex(list, "@") + 1
	for host := range strings.SplitSeq(list[at:], ",") {
		urls = append(urls, scheme+"://"+list[:at]+host+tail)
	}
	return urls
}

// checkTLS refuses a URL with parameters for TLS that would have no effect.
func checkTLS(uri amqp.URI) error {
	if uri.Scheme != "amqps" &&
		(uri.CACertFile != "" || uri.CertFile != "" || uri.KeyFile != "" || uri.ServerName != "") {
		return errors.New("rabbit: the AMQP URL has parameters for TLS, but its scheme is amqp: write amqps://")
	}
	if (uri.CertFile == "") != (uri.KeyFile == "") {
		return errors.New("rabbit: certfile and keyfile go together: a client certificate needs its private key")
	}
	return nil
}

func vhostPath(vhost string) string {
	if vhost == "/" {
		return ""
	}
	return vhost
}
