# The same, and the walk is one of a child that was forked and executes nothing.
# modes: default no-hooks
# which: forked
echo begin
(i=0; while [ $i -lt 20 ]; do i=$((i + 1)); echo $i; done) | cat
echo end
