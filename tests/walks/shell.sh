# Processes that fork, execute and talk through pipes; the first one executes one program after the other.
# modes: default no-hooks
echo begin
seq 1 200 | sed 's/1/one/' | sort | tail -3
(i=0; while [ $i -lt 20 ]; do i=$((i + 1)); done; echo $i) | cat
exec sh -c 'echo inner; ls / | wc -l; exec env A=1 true'
