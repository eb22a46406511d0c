#!/bin/bash
# vim in silent mode: substitutions, a macro, an external filter.
# needs: vim
# record
seq 100 > file && vim -u NONE -es -N -c '%s/\v(\d)$/\1\1/' -c 'normal gg3dd' -c '%!sort -r' -c 'normal qaAx^[jq' -c 'wq' file; cat file
# check
test "$(wc -l < file)" = 97
