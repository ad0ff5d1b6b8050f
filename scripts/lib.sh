# Shared by scripts/test and scripts/demo: what must be installed, and small helpers. Sourced by bash.

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
export CCACHE_SLOPPINESS=${CCACHE_SLOPPINESS:-pch_defines,time_macros}  # lets ccache answer for what uses a precompiled header
jobs=$(nproc 2>/dev/null || echo 2)

say() { printf '%s\n' "$*"; }
die() { printf '%s: %s\n' "${0##*/}" "$*" >&2; exit 1; }

# --- What the parts need, as Debian packages ---
debian_version() { (. /etc/os-release 2>/dev/null && echo "${VERSION_ID:-}"); }
packages_of() {
  case $1 in
    core) echo git cmake ninja-build g++ ccache libgtest-dev libgmock-dev libcli11-dev nlohmann-json3-dev libfmt-dev \
               libffi-dev pkgconf python3 ;;
    opencl) echo ocl-icd-libopencl1 pocl-opencl-icd ;;
    bench) echo libbenchmark-dev libboost-dev libtbb-dev ;;
    lint) echo clang-format clang-tidy ;;
    fuzz) case $(debian_version) in 12) echo clang libclang-rt-14-dev ;; *) echo clang libclang-rt-19-dev ;; esac ;;
    valgrind) echo valgrind ;;
    cross) echo g++-aarch64-linux-gnu libc6-dev-arm64-cross qemu-user ;;
    *) die "there is no group of packages '$1'" ;;
  esac
}

missing_packages() {  # PACKAGE...: prints those that are not installed
  local package
  for package in "$@"; do
    [ "$(dpkg-query -W -f='${db:Status-Status}' "$package" 2>/dev/null)" = installed ] || printf '%s ' "$package"
  done
}

as_root() {
  if [ "$(id -u)" -eq 0 ]; then "$@"; elif command -v sudo >/dev/null; then sudo "$@"; else return 1; fi
}

apt_updated=
apt_install() {  # PACKAGE...: quietly; on failure the log is in $apt_log
  apt_log=${TMPDIR:-/tmp}/slipway-apt.$(id -u).log
  local apt=(env DEBIAN_FRONTEND=noninteractive apt-get -qq -o DPkg::Lock::Timeout=120 -o Acquire::Retries=2)
  if [ -z "$apt_updated" ]; then
    apt_updated=yes
    as_root "${apt[@]}" update >"$apt_log" 2>&1 || true  # a partial update may be all that is needed
  fi
  as_root "${apt[@]}" install -y --no-install-recommends "$@" >>"$apt_log" 2>&1
}

# Makes sure that the packages of a group are there. Touches no network when they are.
install_core() {
  command -v dpkg-query >/dev/null || { need_commands git cmake ninja g++ python3; return; }
  local missing
  missing=$(missing_packages $(packages_of core))
  [ -z "$missing" ] && return
  say "installing: $missing"
  apt_install $missing || { tail -n 5 "$apt_log" >&2; die "could not install: $missing(as root or with sudo: apt-get install $missing)"; }
}
install_optional() {  # GROUP...
  command -v dpkg-query >/dev/null || return 0
  local group missing
  for group in "$@"; do
    missing=$(missing_packages $(packages_of "$group"))
    [ -z "$missing" ] && continue
    say "installing: $missing"
    apt_install $missing || say "not available: $missing(group $group); going on without"
  done
}
need_commands() {
  local command
  for command in "$@"; do command -v "$command" >/dev/null || die "needs the command '$command'"; done
}

# A build folder remembers where its sources were; one that was copied here from elsewhere is of no use.
configure() {  # PRESET [OPTION...]
  local preset=$1 cache=$root/build/$1/CMakeCache.txt
  shift
  if [ -f "$cache" ] && ! grep -qxF "CMAKE_HOME_DIRECTORY:INTERNAL=$root" "$cache"; then rm -rf "$root/build/$preset"; fi
  (cd "$root" && cmake --preset "$preset" --log-level=WARNING "$@")
}

data_folder() {  # prints the folder of the test data; nothing when there is none
  local folder=${SLIPWAY_DATA:-$root/../shared/data}
  [ -f "$folder/stories260K.bin" ] && [ -f "$folder/tok512.bin" ] && (cd "$folder" && pwd)
  return 0
}
