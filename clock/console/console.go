package console

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/base64"
	"fmt"
	"io/fs"
	"net/http"
	"path"
	"strings"
	"time"
)

//go:embed assets
var assets embed.FS

// index is the file at the root of the console.
const index = "index.html"

// policy is the content security policy of all files.
const policy = "default-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'; object-src 'none'"

// contentTypes holds the types of the files, by the ends of their names. The types of package mime depend on the
// machine.
var contentTypes = map[string]string{
	".html": "text/html; charset=utf-8", ".css": "text/css; charset=utf-8", ".js": "text/javascript; charset=utf-8",
	".svg": "image/svg+xml",
}

// file is an embedded file with its headers.
type file struct {
	content     []byte
	contentType string
	etag        string // hash of the content, in quotes
}

// Console serves the files of the console. It is an http.Handler of paths without a slash at the start; "" is the page
// itself.
type Console struct {
	files map[string]*file // files by name
}

// New returns the console. It fails only if a file has an unknown type.
func New() (*Console, error) {
	c := &Console{files: map[string]*file{}}
	err := fs.WalkDir(assets, "assets", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		f, err := read(name)
		if err == nil {
			c.files[strings.TrimPrefix(name, "assets/")] = f
		}
		return err
	})
	return c, err
}

func read(name string) (*file, error) {
	content, err := assets.ReadFile(name)
	if err != nil {
		return nil, err
	}
	contentType, known := contentTypes[path.Ext(name)]
	if !known {
		return nil, fmt.Errorf("%s: the type of the file is unknown", name)
	}
	hash := sha256.Sum256(content)
	return &file{content: content, contentType: contentType, etag: `"` + base64.RawURLEncoding.EncodeToString(hash[:12]) + `"`}, nil
}

// ServeHTTP responds with a file, with 304 if the client has it already, or with 404. A client asks before it uses a
// copy again, so the files of a page are of one version.
func (c *Console) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	setSecurityHeaders(w.Header())
	name := r.URL.Path
	if name == "" {
		name = index
	}
	f, found := c.files[name]
	if !found {
		http.Error(w, "the console has no such file; its page is /ui/", http.StatusNotFound)
		return
	}
	h := w.Header()
	h.Set("Content-Type", f.contentType)
	h.Set("ETag", f.etag)
	h.Set("Cache-Control", "no-cache")
	http.ServeContent(w, r, name, time.Time{}, bytes.NewReader(f.content))
}

func setSecurityHeaders(h http.Header) {
	h.Set("Content-Security-Policy", policy)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
}
