#!/bin/bash
# Debian for 32-bit processors, in a folder of its own: shell, perl, Python, awk, tar, a package database; and a Go program of 32 bits.
# version: cat /var/tmp/bis-i386/etc/debian_version
# needs: debootstrap chroot go
# remark: all programs are of 32 bits
# setup
root=/var/tmp/bis-i386
[ -x $root/usr/bin/gawk ] || debootstrap --arch=i386 --variant=minbase --include=perl,python3-minimal,gawk bookworm $root > /dev/null
cat > $root/tmp/all.sh <<'END'
set -e
for i in 1 2 3; do echo "$i $(seq $i | tail -1)" | cat; done
ls /usr/bin | sort | sha256sum
find /etc -name '*.conf' | sort | wc -l
perl -MPOSIX -e 'my %h; $h{$_} = $_ ** 2 for 1 .. 20000; print scalar(keys %h), " ", 2 ** 40, "\n"; my $p = fork; if (!$p) { exit 3 } waitpid $p, 0; print $? >> 8, "\n"'
python3 -c 'import sys, threading
out = []
def f(n): out.append(sum(range(n)))
ts = [threading.Thread(target=f, args=(100000 + i,)) for i in range(4)]
[t.start() for t in ts]; [t.join() for t in ts]
print(sys.maxsize, sorted(out))'
awk 'BEGIN { for (i = 0; i < 100000; i++) s += sin(i); printf "%.6f\n", s }'
tar cf - /etc 2> /dev/null | gzip -n | gunzip | tar tf - | wc -l
dpkg -l | wc -l
END
cat > a.go <<'END'
package main

import (
	"fmt"
	"os/exec"
	"sync"
)

func fib(n int) int {
	if n < 2 {
		return n
	}
	return fib(n-1) + fib(n-2)
}

func main() {
	var all sync.WaitGroup
	r := make([]int, 8)
	for i := range r {
		all.Add(1)
		go func() { defer all.Done(); r[i] = fib(20 + i) }()
	}
	all.Wait()
	out, err := exec.Command("/bin/echo", "from go").Output()
	fmt.Println(r, string(out), err)
}
END
GOARCH=386 CGO_ENABLED=0 GO111MODULE=off go build -o go386 a.go
# record
chroot /var/tmp/bis-i386 /bin/bash /tmp/all.sh && ./go386
# check
grep -q '^2147483647' "$OUT" && grep -q 'from go' "$OUT"
