package front

import (
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"

	"github.com/clockd/clockd/clock/access"
)

// guard refuses requests that a browser sends without its user's knowledge. A page of another site sends such requests,
// also under a name that the attacker's DNS points to this server (DNS rebinding). Programs send neither Origin nor
// Sec-Fetch-Site.
type guard struct {
	hosts       map[string]bool // this server's names in lower case, besides IP addresses and loopback names
	crossOrigin *http.CrossOriginProtection
}

func newGuard(cfg Config) guard {
	g := guard{hosts: map[string]bool{}, crossOrigin: http.NewCrossOriginProtection()}
	for _, name := range append([]string{cfg.Listen}, cfg.Hosts...) {
		g.hosts[hostName(name)] = true
	}
	return g
}

// admit returns the problem that refuses the request, or nil.
func (g guard) admit(need access.Need, r *http.Request) error {
	if host := hostName(r.Host); !g.isOwnName(host) {
		return &Problem{
			Status: http.StatusForbidden, Code: CodeUnknownHost,
			Detail: fmt.Sprintf("%q is not a name of this server: if the name is yours, add it to CLOCKD_HOSTS", host),
		}
	}
	if r.Method == http.MethodGet && need != access.Take { // GET /rings takes rings
		return nil
	}
	changing := *r
	changing.Method = http.MethodPost // Check admits every GET, but GET /rings takes rings
	if g.crossOrigin.Check(&changing) != nil || r.Method == http.MethodGet && fromUnknownPage(r) {
		return &Problem{
			Status: http.StatusForbidden, Code: CodeCrossSite,
			Detail: "a page of another site may not do this: the headers Origin or Sec-Fetch-Site name another site",
		}
	}
	return nil
}

// fromUnknownPage reports whether a browser sends the request for a page that may belong to another site. Browsers send
// no Sec-Fetch-Site to a plain-HTTP origin beyond loopback. They send no Origin with the GET of an image, of a frame or
// of fetch in no-cors mode. Then only a Referer of this server shows that the page is this server's own.
func fromUnknownPage(r *http.Request) bool {
	if !strings.HasPrefix(r.UserAgent(), "Mozilla/") || r.Header.Get("Sec-Fetch-Site") != "" ||
		r.Header.Get("Origin") != "" {
		return false
	}
	page, err := url.Parse(r.Referer())
	return err != nil || page.Host != r.Host
}

// isOwnName reports whether a request may name this host. IP addresses and loopback names are safe, because no
// attacker's DNS resolves them. An empty host is safe, because only programs leave the host out.
func (g guard) isOwnName(host string) bool {
	if host == "" || host == "localhost" || strings.HasSuffix(host, ".localhost") || g.hosts[host] {
		return true
	}
	_, err := netip.ParseAddr(host)
	return err == nil
}

// hostName returns the host of a Host header or a listen address, in lower case, without port, brackets and trailing
// dot.
func hostName(host string) string {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	return strings.TrimSuffix(strings.ToLower(strings.Trim(host, "[]")), ".")
}
