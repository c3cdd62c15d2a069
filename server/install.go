package server

import (
	"bufio"
	"embed"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"regexp"
	"strings"
)

//go:embed install/install.sh install/install.ps1
var installers embed.FS

// What may stand in a script that others run: nothing in these has a meaning to a
// shell within quotes, or to PowerShell.
var (
	hostShape = regexp.MustCompile(`\A([A-Za-z0-9]([A-Za-z0-9.-]{0,252})|\[[0-9A-Fa-f:.]{2,45}\])(:[0-9]{1,5})?\z`)
	fileShape = regexp.MustCompile(`\A[A-Za-z0-9][A-Za-z0-9._+~-]{0,199}\z`)
	sumShape  = regexp.MustCompile(`\A[0-9a-f]{64}\z`)
)

const (
	sumsFile = "SHA256SUMS"
	maxSums  = 1 << 20
)

// download is a line of SHA256SUMS.
type download struct{ name, sum string }

// installScript is GET /install.sh and /install.ps1: the script that brings this
// server's agent onto a machine, with the digests of what it will download.
func installScript(name, mediaType string, systems []string, line func(system string, d download) string) func(*call) error {
	return func(c *call) error {
		base, err := c.ownAddress()
		if err != nil {
			return err
		}
		root, files, err := c.downloads()
		if err != nil {
			return err
		}
		defer root.Close()
		var lines []string
		for _, system := range systems {
			if d, ok := forSystem(files, system); ok {
				lines = append(lines, line(system, d))
			}
		}
		raw, err := installers.ReadFile("install/" + name)
		if err != nil {
			return err
		}
		text := strings.NewReplacer("@SERVER@", base, "@FILES@", strings.Join(lines, "\n")).Replace(string(raw))
		c.write(http.StatusOK, mediaType, []byte(text))
		return nil
	}
}

var (
	installSh = installScript("install.sh", "text/x-shellscript; charset=utf-8", []string{"linux-amd64", "linux-arm64"},
		func(system string, d download) string {
			return fmt.Sprintf("\t%s) echo '%s %s' ;;", system, d.name, d.sum)
		})
	installPs1 = installScript("install.ps1", "text/plain; charset=utf-8", []string{"windows-amd64", "windows-arm64"},
		func(system string, d download) string {
			return fmt.Sprintf("    '%s' = @('%s', '%s')", system, d.name, d.sum)
		})
)

// ownAddress is where the asker found this server.
func (c *call) ownAddress() (string, error) {
	host := c.r.Host
	if !hostShape.MatchString(host) {
		return "", refuse(malformed, "the header Host, %s, is no name or address that may stand in a script", quote(host))
	}
	if strings.HasPrefix(host, "[") {
		name := host[1:strings.IndexByte(host, ']')]
		if net.ParseIP(name) == nil {
			return "", refuse(malformed, "the header Host, %s, is no address", quote(host))
		}
	}
	if c.r.TLS != nil || c.trusts(hostAddr(c.r.RemoteAddr)) && c.r.Header.Get("X-Forwarded-Proto") == "https" {
		return "https://" + host, nil
	}
	return "http://" + host, nil
}

// downloads opens install.dir and reads what it offers: no file but those that
// its SHA256SUMS names is ever handed out.
func (c *call) downloads() (*os.Root, []download, error) {
	if c.cfg.InstallDir == "" {
		return nil, nil, refuse(unknown, "this server hands out no programs; set install.dir to the folder of a release, with its %s", sumsFile)
	}
	root, err := os.OpenRoot(c.cfg.InstallDir)
	if err != nil {
		return nil, nil, noFolder(err)
	}
	f, err := root.Open(sumsFile)
	if err != nil {
		return nil, nil, errors.Join(noFolder(err), root.Close())
	}
	defer f.Close()
	var files []download
	lines := bufio.NewScanner(io.LimitReader(f, maxSums))
	for lines.Scan() {
		sum, name, _ := strings.Cut(lines.Text(), " ")
		name = strings.TrimLeft(name, " *")
		if sumShape.MatchString(sum) && fileShape.MatchString(name) {
			files = append(files, download{name, sum})
		}
	}
	if err := lines.Err(); err != nil {
		return nil, nil, errors.Join(noFolder(err), root.Close())
	}
	return root, files, nil
}

func noFolder(err error) error {
	r := refuse(unknown, "install.dir has no %s that can be read", sumsFile)
	r.cause = err
	return r
}

// forSystem is what a system's script downloads: the archive of a release, or the
// program itself.
func forSystem(files []download, system string) (found download, ok bool) {
	ends := []string{system + ".tar.gz", system}
	if strings.HasPrefix(system, "windows-") {
		ends = []string{system + ".zip", system + ".exe"}
	}
	for _, end := range ends {
		for _, d := range files {
			if strings.HasPrefix(d.name, "pushd-") && strings.HasSuffix(d.name, "-"+end) {
				return d, true
			}
		}
	}
	return download{}, false
}

// download is GET /download/NAME.
func (c *call) download() error {
	root, files, err := c.downloads()
	if err != nil {
		return err
	}
	defer root.Close()
	name := c.echo.Param("name")
	known := name == sumsFile
	for _, d := range files {
		known = known || d.name == name
	}
	if !known {
		return noSuch("download", name)
	}
	info, err := root.Stat(name)
	if err != nil || !info.Mode().IsRegular() {
		r := noSuch("download", name)
		r.cause = err
		return r
	}
	f, err := root.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	return c.sendFile(f, name)
}
