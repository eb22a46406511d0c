# A child that vfork has made has memory of its own from its exec on: there a session with -f begins.
# program: vforked.c
# replay: -f {fork}
break in_child
continue
#> Breakpoint 1, in_child ()
backtrace
#> in_child ()
#> main (argc=2
delete
reverse-continue
#> No more reverse-execution history
continue
#> it exited with status 0
