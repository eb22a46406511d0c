#!/bin/bash
# crun runs a container of busybox: namespaces, cgroups, seccomp, a detached one, exec, kill, delete.
# needs: crun busybox python3 unshare
# package: crun
# limit: 240
# stderr varies: warnings
# setup
mkdir -p b/rootfs/bin b/rootfs/proc b/rootfs/dev b/rootfs/sys; cp "$(command -v busybox)" b/rootfs/bin/; for i in sh sleep echo ps id cat; do ln -s busybox b/rootfs/bin/$i; done
cd b && crun spec && python3 - <<'END'
import json
c = json.load(open("config.json")); c["process"]["terminal"] = False
c["process"]["args"] = ["/bin/sh", "-c", "echo inside; id -u; ps | wc -l; cat /proc/self/cgroup | wc -l"]
c["process"]["env"] = ["PATH=/bin"]
json.dump(c, open("config.json", "w"))
c["process"]["args"] = ["/bin/sleep", "100"]
import os
os.mkdir("../c"); os.symlink("../b/rootfs", "../c/rootfs"); c["root"]["path"] = os.path.abspath("rootfs")
json.dump(c, open("../c/config.json", "w"))
END
cat > ../inside.sh <<'END'
C="crun --cgroup-manager=disabled --root $PWD/state"
$C run -b b one; echo $?
$C run -d -b c two; $C exec two /bin/echo in the other; $C list | wc -l; $C kill two KILL; sleep 0.3; $C delete -f two; $C list | wc -l
END
# record
exec unshare -m sh -c 'umount -R /sys/fs/cgroup; mount -t cgroup2 none /sys/fs/cgroup; exec bash inside.sh'
# check
grep -q '^inside' "$OUT" && grep -q 'in the other' "$OUT"
