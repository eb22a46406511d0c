#!/bin/bash
# tmux: a server that is a daemon, with two windows, and what is on their screens.
# needs: tmux
# version: tmux -V
# setup
cat > inside.sh <<'END'
export TERM=xterm PS1='$ ' HOME=$PWD
t() { tmux -f /dev/null -S ./socket "$@"; }
t new-session -d -x 80 -y 24 'sh'
t send-keys 'echo one two three | tr a-z A-Z; printf "%s\n" a b c > file' Enter
for _ in $(seq 100); do [ -s file ] && t capture-pane -p | grep -q '^ONE' && break; sleep 0.05; done
t new-window -d 'cat file; sleep 100'
t split-window -d 'seq 5; sleep 100'
for _ in $(seq 100); do t capture-pane -p -t :1 | grep -q '^c' && break; sleep 0.05; done
t capture-pane -p -t :1 | head -3
t list-windows -F '#{window_index} #{window_panes}'
t kill-server
END
# record
exec bash inside.sh
# check
grep -q '^0 2$' "$OUT"
