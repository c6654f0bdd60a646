package oidc

import (
	"fmt"
	"strings"

	"github.com/clockd/clockd/clock/access"
)

// Grant gives the members of a group a role for some applications.
type Grant struct {
	Group        string
	Role         access.Role
	Applications access.Applications
}

// ParseGrants reads grants that are separated by semicolons, like "ops=admin; shop team=operator:shop,shop-*". Only the
// role admin may be without applications: it has all then.
func ParseGrants(text string) ([]Grant, error) {
	if strings.TrimSpace(text) == "" {
		return nil, nil
	}
	var grants []Grant
	for part := range strings.SplitSeq(text, ";") {
		g, err := parseGrant(strings.TrimSpace(part))
		if err != nil {
			return nil, err
		}
		grants = append(grants, g)
	}
	return grants, nil
}

// parseGrant reads GROUP=ROLE or GROUP=ROLE:APPLICATIONS. A group may have an equals sign, as names of LDAP have.
func parseGrant(text string) (g Grant, err error) {
	i := strings.LastIndex(text, "=")
	if i < 1 {
		return g, fmt.Errorf("%q is not like GROUP=ROLE or GROUP=ROLE:APP,APP", text)
	}
	role, applications, named := strings.Cut(text[i+1:], ":")
	g.Group = strings.TrimSpace(text[:i])
	if g.Role, err = access.ParseRole(strings.TrimSpace(role)); err != nil {
		return Grant{}, fmt.Errorf("%q: %w", text, err)
	}
	switch {
	case g.Group == "":
		return Grant{}, fmt.Errorf("%q has no group", text)
	case named:
		g.Applications, err = access.ParseApplications(strings.TrimSpace(applications))
	case g.Role == access.Administrator:
		g.Applications = access.Applications{"*"}
	default:
		err = fmt.Errorf("a group of the role %s names its applications: GROUP=%s:shop,bank-*", g.Role, g.Role)
	}
	if err != nil {
		return Grant{}, fmt.Errorf("%q: %w", text, err)
	}
	return g, nil
}

// String returns the grant as ParseGrants reads it.
func (g Grant) String() string {
	return g.Group + "=" + g.Role.String() + ":" + g.Applications.String()
}
