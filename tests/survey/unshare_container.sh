#!/bin/bash
# A container by hand: new namespaces with another root folder, busybox in it, and as process 1.
# needs: unshare busybox
# setup
mkdir -p root/bin root/proc && cp "$(command -v busybox)" root/bin/busybox && for p in sh ls ps mount echo id cat hostname; do ln -s busybox root/bin/$p; done
# record
unshare --user --map-root-user --mount --pid --uts --ipc --net --fork sh -c 'mount -t proc proc root/proc && hostname inside && exec chroot root /bin/sh -c "echo \$\$; hostname; ls /; ps | head -3; id -u; (echo sub; exit 3); echo \$?"'
# check
grep -q '^inside$' "$OUT"
