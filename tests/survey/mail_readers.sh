#!/bin/bash
# mutt and Midnight Commander (which runs a shell beside itself at a pseudo terminal), driven by expect.
# needs: mutt mc expect
# package: mutt
# limit: 240
# varies: screens with times
# setup
mkdir d Mail; echo one > d/one.txt; seq 40 > d/two.txt
printf 'From a@example.test Mon Jan  1 00:00:00 2024\nFrom: a@example.test\nSubject: first thing\n\ntext of it\n\nFrom b@example.test Mon Jan  1 00:00:00 2024\nFrom: b@example.test\nSubject: second thing\n\nother text\n' > box
cat > mutt.exp <<'END'
set env(TERM) xterm; set stty_init "rows 24 columns 80"; set timeout 20
spawn mutt -n -F /dev/null -R -f box
expect "first thing"; send "\r"; expect "text of it"; send "q"; expect "second thing"; send "x"; expect eof; wait
END
cat > mc.exp <<'END'
set env(TERM) xterm; set stty_init "rows 24 columns 80"; set timeout 20
spawn mc -d d
expect "two.txt"; sleep 0.3; send "cp one.txt three.txt\r"; expect "three.txt"; sleep 0.5; send "ls | wc -l > ../count\r"; sleep 0.5
send "\0330"; expect eof; wait
END
# record
export HOME=$PWD; expect -f mutt.exp; expect -f mc.exp; cat d/three.txt count
# check
tail -2 "$OUT" | head -1 | grep -q one
