# ^C stops a program that computes, live and where it is replayed. kill ends it.
# program: long.c
# args: 30000000000
# modes: live
# status: 137
tbreak main
continue
#> main (
shell (sleep 0.7; kill -INT $PPID) &
continue
#> SIGINT
set $s = spins
print spins > 0
#> = 1
checkpoint
#> Checkpoint 1
tbreak main
reverse-continue
#> main (
print spins
#> = 0
shell (sleep 0.4; kill -INT $PPID) &
continue
#> SIGINT
rollback
print spins == $s
#> = 1
shell (sleep 0.4; kill -INT $PPID) &
continue
#> SIGINT
print spins > $s
#> = 1
kill
