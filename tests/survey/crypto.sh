#!/bin/bash
# openssl and gpg (with its agent, a daemon): keys, certificates, signatures, a handshake.
# needs: openssl gpg gpgconf
# version: openssl version
# limit: 240
# varies: keys are made by chance
# setup
cat > inside.sh <<'END'
export GNUPGHOME=$PWD/g; mkdir -m 700 g
gpg --batch --quiet --passphrase '' --quick-gen-key test@example.org ed25519 sign never 2> /dev/null
echo text > t && gpg --batch --quiet --detach-sign t && gpg --verify t.sig t 2>&1 | grep -c 'Good signature'
gpgconf --kill gpg-agent
openssl req -x509 -newkey rsa:2048 -nodes -keyout k -out c -subj /CN=x -days 2 2> /dev/null
openssl s_server -accept 127.0.0.1:8443 -cert c -key k -naccept 1 -rev -quiet > /dev/null 2>&1 &
for _ in $(seq 100); do (echo through; sleep 0.3) | openssl s_client -connect 127.0.0.1:8443 -quiet -no_ign_eof 2> /dev/null > got && [ -s got ] && break; sleep 0.1; done
wait; cat got
END
# record
exec bash inside.sh
# check
grep -q '^1$' "$OUT" && grep -q hguorht "$OUT"
