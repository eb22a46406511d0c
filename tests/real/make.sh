#!/bin/bash
# make -j2 of a real C project, GNU hello from its Debian source package, configured natively before.
# needs: make gcc dpkg-source
# source: hello
# limit: 400
# setup
dpkg-source --no-check -x "$SOURCES"/hello/hello_*.dsc source
cd source
./configure --disable-nls > ../configure.log
# record
exec make -C source -j2
# check
test "$(source/hello)" = 'Hello, world!'
