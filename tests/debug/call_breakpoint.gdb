# A breakpoint in a called function stops there; one can look around, step, and go on to its end.
# program: callee.c
handle SIGUSR1 nostop noprint
break add if a == 20
continue
#> add (a=20, b=30)
break add if a == 5
print outer(5)
#> add (a=5, b=1)
#> stopped while in a function called from GDB
backtrace
#> add (a=5, b=1)
#> outer (a=5)
#> <function called from gdb>
#> add (a=20, b=30)
#> main ()
print half(a)
#> = 2.5
set var a = 100
next
#> return a + b
print calls
#> = 5
finish
#> outer (a=5)
#> = 101
next
#> return inner * 10
continue
print calls
#> = 4
backtrace
#> add (a=20, b=30)
#> main ()
finish
#> = 50
reverse-continue
#> add (a=20, b=30)
print calls
#> = 4
reverse-continue
#> No more reverse-execution history
