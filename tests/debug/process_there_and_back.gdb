# From a process to another one at the same moment, and back; each keeps where it was. (The stops are behind the waits for
# turns: which process is first at those differs.)
# program: shared_page.c
process
#> ~ \* .*shared_page
#> ~ shared_page \(forked by
break shared_page.c:23
break shared_page.c:29
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
