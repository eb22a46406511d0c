# A child from its fork, with -f.
# program: forks.c
# replay: -f {fork}
break in_child
continue
#> Breakpoint 1, in_child ()
backtrace
#> in_child ()
#> main (
watch shared_name
continue
#> Old value = 1
#> New value = 2
continue
#> it exited with status 4
disable 1
reverse-continue
#> Old value = 2
#> New value = 1
enable 1
stepi
reverse-continue
#> in_child ()
reverse-continue
#> No more reverse-execution history
print shared_name
#> = 1
