# ^C stops a called function that would go on for ever.
# program: callee.c
handle SIGUSR1 nostop noprint
break add if a == 20
continue
#> add (a=20, b=30)
shell (sleep 0.7; kill -INT $PPID) &
print forever()
#> Program received signal SIGINT
print calls
#> = 77
backtrace
#> forever ()
#> <function called from gdb>
reverse-stepi
#> back from the copy
#> add (a=20, b=30)
print calls
#> = 4
