# ^C stops a long way backwards.
# program: long.c
# args: 2000000000
tbreak long.c:20
continue
#> phase = 3
watch spins if spins == 5
shell (sleep 0.7; kill -INT $PPID) &
reverse-continue
#> SIGINT
print phase
#> = 2
