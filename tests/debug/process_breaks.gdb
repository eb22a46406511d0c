# Breakpoints by the name of a function that another program has not: they are as they were when the program is back, by a move to
# another process or back over an exec; one that the user has disabled stays so.
# program: forks.c
# other: other.c
# args: fork {other}
break in_parent
break in_child
disable 2
break in_child
seek end
process other
info breakpoints
#> <PENDING>
process {first}
info breakpoints
#> ~ 1 +breakpoint +keep y .*in_parent at
#> ~ 2 +breakpoint +keep n .*in_child at
#> ~ 3 +breakpoint +keep y .*in_child at
continue
#> Breakpoint 1, in_parent ()
process other
seek end
disable 3
seek start
info breakpoints
#> ~ 1 +breakpoint +keep y .*in_parent at
#> ~ 2 +breakpoint +keep n .*in_child at
#> ~ 3 +breakpoint +keep n .*in_child at
seek end
reverse-continue
#> No more reverse-execution history
info breakpoints
#> ~ 1 +breakpoint +keep y .*in_parent at
#> ~ 2 +breakpoint +keep n .*in_child at
