package postgresql

import (
	"errors"
	"net/url"
	"os"
	"strings"

	"github.com/jackc/pgx/v5"
)

// Errors about a URL. They do not quote the URL, because any part of it that could not be parsed may contain the
// password.
var (
	errURL = errors.New("postgresql: the database URL must be of the form postgres://user:password@host:port/database, " +
		"with special characters of user and password percent-encoded")
	errFallback = errors.New("postgresql: sslmode=prefer and sslmode=allow silently give up encryption: " +
		"write sslmode=verify-full, or sslmode=require to encrypt without checking the server's name, or sslmode=disable")
)

// withEncryption adds an sslmode to the URL if neither the URL nor the environment sets one. Without it pgx would try
// TLS and silently continue without encryption. The added mode is verify-full if the URL names files for TLS
// (sslrootcert, sslcert, sslkey), else disable.
func withEncryption(raw string) (string, error) {
	rest, isURL := strings.CutPrefix(raw, "postgres://")
	if !isURL {
		rest, isURL = strings.CutPrefix(raw, "postgresql://")
	}
	if !isURL {
		return "", errURL
	}
	address, parameters, _ := strings.Cut(rest, "?")
	_, database, _ := strings.Cut(address, "/")
	query, err := url.ParseQuery(parameters)
	if err != nil || strings.ContainsAny(database, "@/") || strings.Contains(rest, "#") { // signs of a password that is not percent-encoded
		return "", errURL
	}
	switch {
	case query.Has("sslmode"), query.Get("ssl") == "true", query.Has("service"), os.Getenv("PGSSLMODE") != "", os.Getenv("PGSERVICE") != "":
		return raw, nil
	case query.Has("sslrootcert"), query.Has("sslcert"), query.Has("sslkey"):
		return withParameter(raw, "sslmode=verify-full"), nil
	}
	return withParameter(raw, "sslmode=disable"), nil
}

// withParameter returns the URL with one more parameter.
func withParameter(raw, parameter string) string {
	if strings.Contains(raw, "?") {
		return raw + "&" + parameter
	}
	return raw + "?" + parameter
}

// checkEncryption returns errFallback if pgx would continue without encryption when the server offers none.
func checkEncryption(c *pgx.ConnConfig) error {
	for _, f := range c.Fallbacks {
		if (f.TLSConfig == nil) != (c.TLSConfig == nil) {
			return errFallback
		}
	}
	return nil
}
