#!/bin/sh
# Runs tests on an emulated processor with AVX-512 and VNNI, which qemu has not: Bochs, an Ice Lake, some 200 times as slow as
# a machine, with a Linux of Debian's that takes a minute to start.
#
#   tests/under_bochs.sh FOLDER PROGRAM[:TEST] …
#
# PROGRAM: built without sanitizers; TEST: only that one of its tests. FOLDER takes the machine's disk, its kernel, and what it
# has said (`serial`).
set -eu
folder=$(realpath -m "$1"); shift
for tool in bochs grub-mkrescue xorriso mformat cpio busybox; do command -v $tool >/dev/null ||
    { echo "$0: $tool is missing: apt-get install bochs bochsbios vgabios grub-pc-bin grub-common xorriso mtools cpio busybox-static"
      exit 1; }; done
root=$folder/root disk=$folder/disk
rm -rf "$root" "$disk"
mkdir -p "$root/bin" "$root/dev" "$root/proc" "$root/sys" "$root/tmp" "$root/w/tests" "$root/w/assets" "$disk/boot/grub"
[ -e "$folder/boot" ] || (cd "$folder"
    apt-get download -qq "$(apt-cache depends linux-image-cloud-amd64 | awk '/Depends: linux-image/ {print $2; exit}')"
    dpkg -x linux-image-*.deb .)
cp "$folder"/boot/vmlinuz-* "$disk/boot/vmlinuz"
cp -r tests/golden "$root/w/tests"
cp -r assets/parley-9m "$root/w/assets"
cp "$(command -v busybox)" "$root/bin"
for test; do
    program=${test%%:*} only=${test#"${test%%:*}"}
    name=${program##*/tests/}
    to=$root/w/$(echo "$name" | tr / .)
    strip -o "$to" "$program"
    for library in $(ldd "$to" | grep -o '/[^ ]*'); do
        mkdir -p "$root${library%/*}"
        cp -Lu "$library" "$root$library"
    done
    echo "${to##*/} ${only#:}" >>"$root/w/list"
done
cat >"$root/init" <<'INIT'
#!/bin/busybox sh
/bin/busybox --install /bin
mount -t proc p /proc; mount -t sysfs s /sys; mount -t devtmpfs d /dev; mount -t tmpfs t /tmp
export HOME=/tmp TEST_PATIENCE=50
cd /w; grep -om1 avx512_vnni /proc/cpuinfo
while read -r test only; do
    echo "== $test $only"
    "./$test" $only </dev/null 2>&1 && echo "passed: $test" || echo "failed: $test"
done <list
sleep 2; poweroff -f
INIT
chmod +x "$root/init"
(cd "$root" && find . | cpio -o -H newc --quiet | gzip -1) >"$disk/boot/initrd.gz"
# Linux 6.1 on Bochs 2.7: the states of PKRU (515), XSAVEC (321) and XSAVES (323) have sizes there for which the kernel gives up
# AVX altogether; with FSRM (580) memmove() never ends.
cat >"$disk/boot/grub/grub.cfg" <<'GRUB'
linux /boot/vmlinuz console=ttyS0 quiet nosmp nopku noxsaves clearcpuid=515,321,323,580 mitigations=off nokaslr tsc=reliable \
    lpj=400000 nowatchdog random.trust_cpu=on panic=-1
initrd /boot/initrd.gz
boot
GRUB
grub-mkrescue -o "$folder/disk.iso" "$disk" --install-modules='linux iso9660 biosdisk normal' --locales= --fonts= --themes= \
    >"$folder/disk.log" 2>&1
cat >"$folder/machine" <<MACHINE
cpu: model=corei7_icelake_u, count=1, ips=200000000
memory: guest=1024, host=1024
romimage: file=/usr/share/bochs/BIOS-bochs-latest
vgaromimage: file=/usr/share/bochs/VGABIOS-lgpl-latest
ata0-master: type=cdrom, path=$folder/disk.iso, status=inserted
boot: cdrom
com1: enabled=1, mode=file, dev=$folder/serial
display_library: rfb, options="timeout=0"
log: $folder/bochs.log
clock: sync=none
panic: action=fatal
MACHINE
echo c >"$folder/start"
: >"$folder/serial"
tail -f "$folder/serial" & said=$!
trap 'kill $said 2>/dev/null' EXIT
bochs -q -f "$folder/machine" -rc "$folder/start" >"$folder/bochs.out" 2>&1 </dev/null || true
sleep 1
passed=$(grep -c '^passed: ' "$folder/serial" || true)
grep -q avx512_vnni "$folder/serial" || { echo "$0: the machine did not start, or without AVX-512: $folder/bochs.out"; exit 1; }
echo "programs: $passed of $# passed"
[ "$passed" = $# ]
