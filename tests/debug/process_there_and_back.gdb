# From a process to another one at the same moment, and back; each keeps where it was.
# program: shared_turns.c
process
#> ~ \* .*shared_turns
#> ~ shared_turns \(forked by
break by_parent
break by_child
break main
continue
#> main ()
process {fork}
#> it begins at event
#> Program stopped
backtrace
#> main ()
when-tid
#> Current tid: {fork}
process
#> ~ \* .*forked by
continue
#> by_child (i=0)
print *page
#> turn = 1, parents = 10, childs = 0
process {first}
#> Program stopped
print *page
#> turn = 1, parents = 10, childs = 0
continue
#> by_parent (i=1)
back 2
#> Program stopped
when-tid
#> Current tid: {fork}
print page->turn
#> = 1
forward 2
#> Program stopped
#> by_parent (i=1)
process 1
#> the recording has no process 1
process {first}
#> This is the place.
