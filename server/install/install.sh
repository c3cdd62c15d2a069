#!/bin/sh
# Installs the pushd agent from @SERVER@ as a service of this machine:
#   curl -fsS @SERVER@/install.sh | sh -s -- --machine ID --token-file FILE
# and removes it again:
#   curl -fsS @SERVER@/install.sh | sh -s -- --uninstall
#   --machine ID        the machine's id (default: the host's name)
#   --token-file FILE   a file with a token of scope agent:ID; it is copied
#   --server URL        where the server is, if not at @SERVER@
#   --ca FILE           a certificate to trust besides the system's; it is copied
#   --user NAME         who runs the agent (default: root)
#   --prefix DIR        put the files below DIR instead of /
# Settings that are there stay as they are; installing again updates the program.
set -eu
umask 077
LC_ALL=C
export LC_ALL

die() {
	printf 'install.sh: %s\n' "$1" >&2
	exit 1
}

# file_of prints the file for a system, and its SHA-256.
file_of() {
	case "$1" in
@FILES@
	*) return 1 ;;
	esac
}

# fetch URL FILE
fetch() {
	if command -v curl >/dev/null 2>&1; then
		curl -fsS ${ca:+--cacert "$ca"} -o "$2" "$1"
	elif command -v wget >/dev/null 2>&1; then
		wget -q ${ca:+--ca-certificate="$ca"} -O "$2" "$1"
	else
		die "it needs curl or wget"
	fi
}

digest() {
	if command -v sha256sum >/dev/null 2>&1; then
		sha256sum <"$1" | cut -d ' ' -f 1
	elif command -v openssl >/dev/null 2>&1; then
		openssl dgst -sha256 <"$1" | sed 's/^.*= *//'
	else
		die "it needs sha256sum or openssl"
	fi
}

# plain NAME VALUE CHARACTERS: nothing else may stand in the settings or an address.
plain() {
	case "$2" in
	'' | -*) die "$1 cannot be '$2'" ;;
	esac
	left=$(printf '%s' "$2" | tr -d "$3" && printf .)
	[ "$left" = . ] || die "$1 cannot hold what stands in '$2'"
}

# installed tells whether the service is there.
installed() { [ -x "$program" ] && "$program" agent status >/dev/null 2>&1; }

uninstall() {
	[ -x "$program" ] || die "no agent is installed: $program is not there"
	if installed; then
		"$program" agent uninstall
	fi
	rm -f "$program"
	rmdir "$home" 2>/dev/null || :
	echo "The agent is removed; its settings and journal stay in $etc."
}

settings() {
	if [ -n "$token" ]; then
		cat <"$token" >"$etc/token.new"
		mv "$etc/token.new" "$etc/token"
	fi
	if [ -n "$ca" ]; then
		cat <"$ca" >"$etc/ca.pem.new"
		mv "$etc/ca.pem.new" "$etc/ca.pem"
	fi
	if [ -e "$etc/agent.yaml" ]; then
		echo "$etc/agent.yaml is kept as it is."
		return
	fi
	{
		echo "server: '$server'"
		echo "machine_id: '$machine'"
		[ ! -e "$etc/token" ] || echo "token_file: token"
		[ ! -e "$etc/ca.pem" ] || echo "ca: ca.pem"
		echo "handlers: # by action type; docs/agents.md has them all"
		echo "  ping: {kind: exec, command: ['$program', version]}"
	} >"$etc/agent.yaml.new"
	mv "$etc/agent.yaml.new" "$etc/agent.yaml"
}

main() {
	server='@SERVER@' machine='' token='' ca='' user='' prefix='' remove=''
	while [ $# -gt 0 ]; do
		case "$1" in
		--uninstall)
			remove=yes
			shift
			continue
			;;
		--machine | --token-file | --server | --ca | --user | --prefix) [ $# -ge 2 ] || die "$1 needs a value" ;;
		*) die "there is no $1; the head of this script tells what there is" ;;
		esac
		case "$1" in
		--machine) machine=$2 ;;
		--token-file) token=$2 ;;
		--server) server=${2%/} ;;
		--ca) ca=$2 ;;
		--user) user=$2 ;;
		--prefix) prefix=$2 ;;
		esac
		shift 2
	done
	case "$prefix" in
	'') ;;
	/*) plain --prefix "$prefix" 'A-Za-z0-9._/-' ;;
	*) die "--prefix must begin with /" ;;
	esac
	home=$prefix/usr/local/lib/pushd-agent etc=$prefix/etc/pushd
	program=$home/pushd
	if [ -n "$remove" ]; then
		uninstall
		return
	fi

	[ -n "$machine" ] || machine=$(uname -n)
	plain --machine "$machine" 'A-Za-z0-9._:@-'
	plain --server "$server" 'A-Za-z0-9._:/[]-'
	case "$server" in
	http://* | https://*) ;;
	*) die "--server must begin with http:// or https://" ;;
	esac
	[ -z "$user" ] || plain --user "$user" 'A-Za-z0-9._-'
	[ -z "$token" ] || [ -r "$token" ] || die "the token file $token cannot be read"
	[ -z "$ca" ] || [ -r "$ca" ] || die "the file $ca cannot be read"
	[ -n "$prefix" ] || [ "$(id -u)" = 0 ] || die "a service is installed by root: use sudo"

	case "$(uname -m)" in
	x86_64 | amd64) system=linux-amd64 ;;
	aarch64 | arm64) system=linux-arm64 ;;
	*) die "there is no agent for $(uname -m)" ;;
	esac
	[ "$(uname -s)" = Linux ] || die "this script is for Linux, not $(uname -s)"
	found=$(file_of "$system") || die "the server has no file for $system"
	file=${found% *} sum=${found#* }

	work=$(mktemp -d)
	trap 'rm -rf "$work"' EXIT
	trap 'exit 1' HUP INT TERM
	echo "Downloading $server/download/$file"
	fetch "$server/download/$file" "$work/file" || die "the download failed"
	got=$(digest "$work/file")
	[ "$got" = "$sum" ] || die "$file is not what it should be: its SHA-256 is $got, not $sum"
	case "$file" in
	*.tar.gz)
		tar -xzf "$work/file" -C "$work" "${file%.tar.gz}/pushd"
		mv "$work/${file%.tar.gz}/pushd" "$work/file"
		;;
	esac

	if installed; then
		"$program" agent stop || die "the agent that is there does not stop"
	fi
	mkdir -p "$etc"
	chmod 700 "$etc"
	(umask 022 && mkdir -p "$home")
	cat "$work/file" >"$program.new"
	chmod 755 "$program.new"
	mv -f "$program.new" "$program"
	settings
	[ -z "$user" ] || chown -R "$user" "$etc"
	"$program" agent install --config "$etc/agent.yaml" ${user:+--user "$user"}
	"$program" agent start
	echo "The agent runs: its settings are in $etc/agent.yaml, \`$program agent status\` tells its state."
}

# The last line begins it all, so that a script cut short does nothing.
main "$@"
