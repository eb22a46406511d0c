# ^C comes between two stops, at each of which gdb finds that its condition does not hold (it has a variable of gdb's own, so gdb does not
# send it): the way forward, and back, ends there. Where it comes while gdb evaluates the condition, gdb stops there, and says "Quit".
# program: hot_function.c
# modes: no-hooks
tbreak main
continue
set $never = -1
break hot if x == $never
shell (sleep 1; kill -INT $PPID) &
continue
#> ~ SIGINT|Quit
print calls > 0 && calls < 20000000
#> = 1
shell (sleep 1; kill -INT $PPID) &
continue
#> ~ SIGINT|Quit
delete
tbreak leaf
continue
#> leaf (x=
tbreak hot
continue
#> ! SIGINT
#> hot (x=
