#!/bin/bash
# Redirections: here-documents, process substitution, descriptors given on, background jobs and wait.
set -e
cat > f <<END
shell $$ says
END
read -r line < f
[ "$line" = "shell $$ says" ]
exec 7> out
( echo from a subshell >&7 )
sh -c 'echo from a program >&7'
exec 7>&-
[ "$(wc -l < out)" = 2 ]
diff <(echo same) <(echo same)
sleep 0.02 & pid=$!
wait $pid
( sleep 0.01; exit 5 ) & wait $! || [ $? = 5 ]
trap 'echo trapped; T=1' USR1
kill -USR1 $$
[ "$T" = 1 ]
echo "$pid"
echo guest ok
