#!/bin/bash
# Chromium with its own sandbox (namespaces and seccomp filters), as a user.
# needs: chromium setpriv
# package: chromium
# limit: 600
# varies: which of its messages come
# setup
echo '<p id=a>x</p><script>document.getElementById("a").textContent = "made " + 6 * 7</script>' > page.html
mkdir home && chmod -R a+rwX . && chmod a+x .. ../..
# record
HOME="$PWD/home" exec setpriv --reuid 65534 --regid 65534 --clear-groups chromium --headless --disable-gpu --disable-quic --no-first-run --disable-background-networking --disable-component-update --disable-sync --user-data-dir="$PWD/home/p" --virtual-time-budget=500 --dump-dom "file://$PWD/page.html" 2>err
# check
grep -q '>made 42<' "$OUT"
