# The last change of shared memory, where another process has made it: it is told whose it is, and not taken for the thread's own.
# program: shared_page.c
break by_parent
continue
continue
continue
#> by_parent (i=2)
last page->childs
#> ~ page->childs: 0 -> 11, by process [0-9]+, seen by thread 1 in
print page->childs
#> = 0
seek end
changes page->childs
#> ~ 32 -> 63, by process [0-9]+, seen by thread 1 in
#> ~ 11 -> 32, by process [0-9]+, seen by thread 1 in
#> ~ 0 -> 11, by process [0-9]+, seen by thread 1 in
changes page->parents 1
#> 31 -> 62, by thread 1 in by_parent
