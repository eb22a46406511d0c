# One thread stands at a breakpoint and another one is selected: gdb steps the first over its breakpoint before it moves, and must hear of
# no other one then. So it is for what `last` looks for, and with a lock on threads, too.
# program: locking.c
break main
break second
continue
#> main (
checkpoint
continue
#> second (number=20
thread 1
restart 1
#> main (
continue
#> second (number=20
thread 1
back
#> main (
continue
#> second (number=20
continue
#> second (number=21
thread 1
last last
#> in first at
print last
#> = 20
continue
#> second (number=21
thread 1
seek start
#> ld-linux
continue
continue
#> second (number=20
thread 1
set scheduler-locking step
restart 1
#> main (
show scheduler-locking
#> "step"
set scheduler-locking off
continue
#> second (number=20
thread 1
seek end
#> Thread
print last
#> = 24
thread 1
reverse-continue
#> second (number=22
thread 1
reverse-continue
#> second (number=21
