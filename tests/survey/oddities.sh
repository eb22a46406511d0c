#!/bin/bash
# systemd-analyze, dbus-daemon with clients, socat at pseudo terminals, script, setsid, timeout, flock, ionice, time, sox.
# needs: systemd-analyze dbus-run-session dbus-send socat script setsid timeout flock nice sox
# version: systemd-analyze --version
# limit: 240
# varies: dbus answers with names made by chance
# record
systemd-analyze calendar --base-time='2026-01-01' daily | head -2; dbus-run-session -- dbus-send --session --print-reply --dest=org.freedesktop.DBus / org.freedesktop.DBus.ListNames | grep -c string; echo through | socat - EXEC:'cat',pty,rawer; script -qec 'tty >/dev/null && echo at a terminal' /dev/null; setsid -w sh -c 'echo session'; timeout 0.2 sleep 9; echo $?; timeout -s KILL 0.2 sh -c 'trap "" TERM; while :; do :; done'; echo $?; flock lock nice -n 5 echo locked; sox -n a.wav synth 0.2 sine 440 && sox a.wav b.wav speed 2 && ls *.wav
# check
grep -q '^at a terminal' "$OUT" && grep -q '^124$' "$OUT" && grep -q '^137$' "$OUT"
