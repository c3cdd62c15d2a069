package settings

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Bytes is a size, written as 512, 10KiB, 1MiB or 1GiB.
type Bytes int64

var byteUnits = []struct {
	suffix string
	factor int64
}{{"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10}, {"B", 1}}

// String writes b in the largest unit that loses nothing.
func (b Bytes) String() string {
	for _, unit := range byteUnits[:3] {
		if b != 0 && int64(b)%unit.factor == 0 {
			return strconv.FormatInt(int64(b)/unit.factor, 10) + unit.suffix
		}
	}
	return strconv.FormatInt(int64(b), 10)
}

// ParseBytes reads what String writes, and a plain number of bytes.
func ParseBytes(text string) (Bytes, error) {
	digits, factor := text, int64(1)
	for _, unit := range byteUnits {
		if d, found := strings.CutSuffix(text, unit.suffix); found {
			digits, factor = d, unit.factor
			break
		}
	}
	n, err := strconv.ParseInt(digits, 10, 64)
	if err != nil || n > (1<<62)/factor {
		return 0, errors.New("is no size: write bytes, or KiB, MiB, GiB, like 1MiB")
	}
	if n < 1 {
		return 0, errors.New("must be at least 1 byte")
	}
	return Bytes(n * factor), nil
}

// field is one setting: where its value lives and how it is written.
type field struct {
	Key
	kind  string
	oneof []string
	min   int
	zero  bool // a duration that may be 0
	value reflect.Value
}

// set parses text into the field. Space around it, as a file or a shell leaves
// it, is not meant; an empty text means the default.
func (f *field) set(text string) error {
	text = strings.TrimSpace(text)
	if text == "" {
		text = f.Default
	}
	switch v := f.value.Addr().Interface().(type) {
	case *string:
		return f.setString(v, text)
	case *[]string:
		*v = splitList(text)
		return nil
	case *[]netip.Prefix:
		return setNetworks(v, text)
	case *bool:
		b, err := strconv.ParseBool(text)
		if err != nil {
			return errors.New("must be true or false")
		}
		*v = b
		return nil
	case *int:
		n, err := strconv.Atoi(text)
		if err != nil {
			return errors.New("is no whole number")
		}
		if n < f.min {
			return fmt.Errorf("must be at least %d", f.min)
		}
		*v = n
		return nil
	case *float64:
		share, err := strconv.ParseFloat(text, 64)
		if err != nil || !(share >= 0 && share <= 1) {
			return errors.New("must be from 0 to 1, like 0.05")
		}
		*v = share
		return nil
	case *Bytes:
		b, err := ParseBytes(text)
		if err == nil {
			*v = b
		}
		return err
	case *time.Duration:
		return f.setDuration(v, text)
	}
	return fmt.Errorf("has a type that settings cannot hold: %s", f.value.Type())
}

// setNetworks reads addresses and networks.
func setNetworks(v *[]netip.Prefix, text string) error {
	*v = nil
	for _, item := range splitList(text) {
		if a, err := netip.ParseAddr(item); err == nil {
			*v = append(*v, netip.PrefixFrom(a, a.BitLen()))
			continue
		}
		p, err := netip.ParsePrefix(item)
		if err != nil {
			return errors.New("is no list of addresses and networks: write 10.0.0.7,192.0.2.0/24")
		}
		*v = append(*v, p.Masked())
	}
	return nil
}

func (f *field) setString(v *string, text string) error {
	if len(f.oneof) > 0 && !slices.Contains(f.oneof, text) {
		return fmt.Errorf("must be one of %s", strings.Join(f.oneof, ", "))
	}
	if f.kind == "url" && text != "" {
		if err := checkURL(text); err != nil {
			return err
		}
	}
	if f.kind == "address" {
		if err := checkAddress(text); err != nil {
			return err
		}
	}
	*v = text
	return nil
}

// checkURL wants an address that can be shown to everybody: `config show` and the
// log spell it out.
func checkURL(text string) error {
	u, err := url.Parse(text)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" || len(u.Path) < 2 {
		return errors.New("is no http or https address with a path, like http://127.0.0.1:4318/v1/traces")
	}
	if u.User != nil {
		return errors.New("must hold no user and password; OTEL_EXPORTER_OTLP_HEADERS is for credentials")
	}
	return nil
}

// setDuration wants a unit: a bare 30 is 30 seconds to one reader and 30
// nanoseconds to another.
func (f *field) setDuration(v *time.Duration, text string) error {
	d, err := time.ParseDuration(text)
	switch {
	case err != nil:
		return errors.New("is no duration: write it with a unit, like 15s, 1m30s or 500ms")
	case d < 0:
		return errors.New("must not be negative")
	case d == 0 && !f.zero:
		return errors.New("must be more than 0")
	}
	*v = d
	return nil
}

func checkAddress(text string) error {
	_, port, err := net.SplitHostPort(text)
	if err != nil {
		return errors.New("is no address: write HOST:PORT, like 127.0.0.1:8080")
	}
	if n, err := strconv.Atoi(port); err != nil || n < 0 || n > 65535 {
		return errors.New("needs a port from 0 to 65535")
	}
	return nil
}

func splitList(text string) []string {
	var items []string
	for item := range strings.SplitSeq(text, ",") {
		if item = strings.TrimSpace(item); item != "" {
			items = append(items, item)
		}
	}
	return items
}

// text writes a field's value as set would read it.
func (f *field) text() string {
	switch v := f.value.Interface().(type) {
	case []string:
		return strings.Join(v, ",")
	case []netip.Prefix:
		var items []string
		for _, p := range v {
			items = append(items, strings.TrimSuffix(p.String(), fmt.Sprintf("/%d", p.Addr().BitLen())))
		}
		return strings.Join(items, ",")
	case time.Duration:
		return FormatDuration(v)
	default:
		return fmt.Sprint(v)
	}
}

// FormatDuration writes a duration as people do: it drops the zero units that time.Duration says.
func FormatDuration(d time.Duration) string {
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}
