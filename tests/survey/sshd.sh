#!/bin/bash
# sshd and ssh, both in the recording, with a copy by scp.
# needs: sshd ssh scp ssh-keygen
# version: ssh -V
# stderr varies: the daemon logs ports and process ids
# setup
[ -d /run/sshd ] || mkdir -p /run/sshd
ssh-keygen -q -t ed25519 -N '' -f host && ssh-keygen -q -t ed25519 -N '' -f user && cp user.pub authorized
cat > sshd_config <<END
Port 2299
ListenAddress 127.0.0.1
HostKey $PWD/host
AuthorizedKeysFile $PWD/authorized
StrictModes no
PidFile $PWD/pid
PermitRootLogin yes
UsePAM no
Subsystem sftp internal-sftp
END
head -c 1000000 /dev/urandom > big
cat > inside.sh <<'END'
/usr/sbin/sshd -D -e -f sshd_config &
o="-i user -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null -o LogLevel=ERROR"
for _ in $(seq 100); do ssh $o -p 2299 root@127.0.0.1 true 2> /dev/null && break; sleep 0.1; done
ssh $o -p 2299 root@127.0.0.1 'echo there; cat | wc -c; exit 7' < big
echo "status $?"
scp $o -P 2299 -q root@127.0.0.1:"$PWD/big" copy && cmp big copy && echo same
kill %1
wait
END
# record
exec bash inside.sh
# check
grep -q '^status 7$' "$OUT" && grep -q '^same$' "$OUT"
