#!/bin/bash
# Boots Debian's kernels in qemu (its own emulation: no KVM is needed), and records and replays in each what trials.sh has.
# usage: tests/reach/kernels.sh [KERNEL...]      KERNEL: 5.10, 6.1, 6.12, newest (all, without any), or a path to a bzImage
#   CPUS="max v2"           processors to emulate: `max` is all that qemu has, `v2` one without AVX (neither has CPUID faulting)
#   GUESTS="threads/ring ..."   guests to take along (tests/guests), in place of the list below
#   WITH_PYTHON=            leaves python out
#   BIS=PATH                    a static bis (without: it is built, as docs/using.md says)
# Kernels come from Debian's mirrors by apt, with lists and a cache of their own below target/reach; a kernel that cannot be had there
# is named and left out, and the status is 1. Everything that is printed in a machine is in target/reach/KERNEL-CPU.log.
set -euo pipefail
cd "$(dirname "$0")/../.."
tree=$PWD
dir=${CARGO_TARGET_DIR:-$tree/target}/reach
mkdir -p "$dir"
mirror=http://deb.debian.org

for program in qemu-system-x86_64 busybox cpio gcc dpkg-deb; do
  command -v "$program" > /dev/null || { echo "$program is needed (packages: qemu-system-x86 busybox-static cpio gcc dpkg)" >&2; exit 2; }
done
bis=${BIS:-}
[ -n "$bis" ] || bis=$(tests/reach/static.sh)

# suite_apt SUITE CMD...: apt with the lists of that suite alone.
suite_apt() {
  local suite=$1 conf=$dir/apt/$1/apt.conf where=debian
  shift
  case $suite in *-security) where=debian-security ;; esac
  if [ ! -e "$conf" ]; then
    mkdir -p "$dir/apt/$suite"/{lists/partial,cache/archives/partial}
    echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $mirror/$where $suite main" > "$dir/apt/$suite/sources.list"
    cat > "$conf" << CONF
Dir::State::Lists "$dir/apt/$suite/lists";
Dir::State::status "/dev/null";
Dir::Cache "$dir/apt/$suite/cache";
Dir::Etc::SourceList "$dir/apt/$suite/sources.list";
Dir::Etc::SourceParts "/dev/null";
Dir::Etc::PreferencesParts "/dev/null";
Acquire::Languages "none";
Acquire::IndexTargets::deb::DEP-11::DefaultEnabled "false";
APT::Architecture "amd64";
APT::Sandbox::User "root";
CONF
    APT_CONFIG=$conf apt-get -qq update >&2 || { rm "$conf"; return 1; }
  fi
  APT_CONFIG=$conf "$@"
}

# fetch SUITE PATTERN: the newest kernel package of this name in that suite, unpacked; prints the path of its bzImage.
fetch() {
  local suite=$1 pattern=$2 package kernel
  kernel=$(find "$dir/kernels/$suite" -name 'vmlinuz*' 2> /dev/null | head -1)
  if [ -z "$kernel" ]; then
    package=$(suite_apt "$suite" apt-cache search --names-only "$pattern" | awk '{ print $1 }' | sort -V | tail -1)
    [ -n "$package" ] || return 1
    mkdir -p "$dir/kernels/$suite"
    (cd "$dir/kernels/$suite" && suite_apt "$suite" apt-get -qq download "$package" >&2) || return 1
    dpkg-deb --fsys-tarfile "$dir/kernels/$suite"/*.deb | tar -x -C "$dir/kernels/$suite" --wildcards '*/vmlinuz*'
    rm "$dir/kernels/$suite"/*.deb
    kernel=$(find "$dir/kernels/$suite" -name 'vmlinuz*' | head -1)
  fi
  [ -n "$kernel" ] && echo "$kernel"
}

image_of() {
  case $1 in
    */*) echo "$1" ;;
    5.10) fetch bullseye-security '^linux-image-5\.10\.[0-9.]+-[0-9]+-amd64$' || fetch bullseye '^linux-image-5\.10\.[0-9.]+-[0-9]+-amd64$' ;;
    6.1) fetch bookworm '^linux-image-6\.1\.[0-9.]+-[0-9]+-amd64$' ;;
    6.12) fetch bookworm-backports '^linux-image-6\.12\.[0-9.]+\+deb12(\.[0-9]+)?-amd64$' ;;
    # Since 7.x the image is in a package of its own.
    newest) fetch sid '^linux-binary-[0-9.]+\+deb[0-9]+-amd64$' ;;
    *) return 1 ;;
  esac
}

guests=${GUESTS:-threads/create_join threads/mutex_counter signals/segv_fix timers/posix_timer futex/robust processes/vfork
  exec/exec_thread pipes/ping_pong sharedmem/fork_shared memory/mremap time/tsc ticks/spin_threads checkpoints/retry}

# The root file system: busybox, bis, guests (every third linked statically), and what the dynamic ones and python need.
make_root() {
  local root=$dir/root guest source n=0 flags
  rm -rf "$root"
  mkdir -p "$root"/{bin,proc,sys,dev,tmp,etc,root,guests}
  cp "$(command -v busybox)" "$root/bin/busybox"
  busybox --list | while read -r applet; do [ "$applet" = busybox ] || ln -sf busybox "$root/bin/$applet"; done
  cp "$bis" "$root/bin/bis"
  cp tests/reach/trials.sh "$root/"
  for guest in $guests; do
    source=tests/guests/$guest.c
    [ -e "$source" ] || continue
    flags=$(sed -n '1,12s|^//* *cflags: ||p' "$source")
    [ $((n++ % 3)) != 0 ] || flags="$flags -static"
    # shellcheck disable=SC2086
    gcc -O1 -g -pthread -w -o "$root/guests/${guest//\//.}" "$source" $flags || gcc -O1 -g -pthread -w -o "$root/guests/${guest//\//.}" "$source"
    sed -n '1,12s|^//* *status: ||p' "$source" > "$root/guests/${guest//\//.}.status"
    [ -s "$root/guests/${guest//\//.}.status" ] || rm "$root/guests/${guest//\//.}.status"
  done
  if [ -n "${WITH_PYTHON-yes}" ] && [ -x /usr/bin/python3 ]; then
    local python version
    python=$(readlink -f /usr/bin/python3)
    version=$(basename "$python")
    mkdir -p "$root/usr/bin" "$root/usr/lib/$version"
    cp "$python" "$root/usr/bin/python3"
    (cd "/usr/lib/$version" && find . -name '*.py' -not -path './test/*' -not -path './idlelib/*' | cpio --quiet -pdm "$root/usr/lib/$version")
  fi
  # Libraries, where the programs look for them.
  local program
  for program in "$root"/guests/* "$root"/usr/bin/*; do
    [ -x "$program" ] || continue
    { ldd "$program" 2> /dev/null || true; } | { grep -o "/[^ ]*" || true; } | while read -r library; do
      [ -e "$root$library" ] || { mkdir -p "$root$(dirname "$library")" && cp -L "$library" "$root$library"; }
    done
  done
  cat > "$root/init" << 'INIT'
#!/bin/busybox sh
export PATH=/bin:/usr/bin HOME=/root PYTHONHOME=/usr
mount -t proc proc /proc; mount -t sysfs sys /sys; mount -t devtmpfs dev /dev 2> /dev/null
mkdir -p /dev/shm /dev/pts /sys/fs/cgroup
mount -t tmpfs shm /dev/shm; mount -t devpts pts /dev/pts; mount -t tmpfs tmp /tmp
ip link set lo up
[ -e /dev/fd ] || ln -s /proc/self/fd /dev/fd
echo "kernel $(uname -r), $(grep -c ^processor /proc/cpuinfo) processors, cpuid faults: $(grep -qw cpuid_fault /proc/cpuinfo && echo yes || echo no)"
bis doctor
LIMIT=400 sh /trials.sh /bin/bis /guests
# As the first process of a pid namespace, as in a container.
unshare -p -m -f sh -c 'mount -t proc proc /proc; exec bis record -o /tmp/init sh -c "echo inside \$\$; (sleep 0.1; echo orphan) & exit 3"'
recorded=$?
bis replay -a /tmp/init && [ "$recorded" = 3 ] && echo "ok first process" || echo "FAILED first process: $recorded"
sync
echo "the end"
poweroff -f
INIT
  chmod +x "$root/init"
  (cd "$root" && find . | cpio --quiet -o -H newc | gzip -1) > "$dir/initramfs.gz"
}

processor() {
  case $1 in
    max) echo max ;;
    v2) echo Nehalem ;;
    *) echo "$1" ;;
  esac
}

make_root
status=0
printf '%-10s %-8s %-40s %s\n' kernel cpu machine result
for name in "${@:-5.10 6.1 6.12 newest}"; do
  # shellcheck disable=SC2086
  for kernel in $name; do
    if ! image=$(image_of "$kernel"); then
      echo "$kernel: not tried, no package of it could be had"
      status=1
      continue
    fi
    for cpu in ${CPUS:-max v2}; do
      log=$dir/$(basename "$kernel")-$cpu.log
      began=$SECONDS
      timeout "${BOOT_LIMIT:-2400}" qemu-system-x86_64 -accel tcg -cpu "$(processor "$cpu")" -smp 2 -m 2G -nographic -no-reboot -nic none \
        -kernel "$image" -initrd "$dir/initramfs.gz" -append "console=ttyS0 quiet panic=-1 mitigations=off" < /dev/null > "$log" 2>&1 || true
      machine=$(sed -n 's/\r$//; s/.*kernel \([^ ,]*\), [0-9]* proc.*faults: \(.*\)/\1, cpuid faults: \2/p' "$log")
      result=$(sed -n 's/\r$//; s/^\([0-9]* passed, [0-9]* failed\)$/\1/p' "$log")
      grep -q '^ok first process' "$log" && result="$result; as first process: ok" || result="$result; as first process: FAILED"
      printf '%-10s %-8s %-40s %s (%d s)\n' "$kernel" "$cpu" "${machine:-did not boot}" "$result" $((SECONDS - began))
      if ! grep -q '^the end' "$log" || ! grep -q '^ok first process' "$log" || ! grep -qE '^[0-9]+ passed, 0 failed' "$log"; then
        grep '^FAILED' "$log" || true
        status=1
      fi
    done
  done
done
exit $status
