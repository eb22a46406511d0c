# A table that is too large for debug registers, in memory that is shared: this process's own writes, and what it first sees of the other's.
# program: shared_large.c
break by_parent
continue
#> by_parent (i=0)
watch *table
continue
#> Hardware watchpoint 2: *table
#> New value = {parents = {1, 0 <repeats 39 times>}, childs = {0 <repeats 40 times>}}
continue
#> has changed it, on its way to event
#> Hardware watchpoint 2: *table
#> New value = {parents = {1, 0 <repeats 39 times>}, childs = {0 <repeats 39 times>, 10}}
continue
#> by_parent (i=1)
continue
#> New value = {parents = {1, 2, 0 <repeats 38 times>}, childs = {0 <repeats 39 times>, 10}}
continue
#> has changed it
#> New value = {parents = {1, 2, 0 <repeats 38 times>}, childs = {0 <repeats 38 times>, 20, 10}}
continue
#> exited with status 0
reverse-continue
#> has changed it
#> New value = {parents = {1, 2, 0 <repeats 38 times>}, childs = {0 <repeats 39 times>, 10}}
reverse-continue
#> New value = {parents = {1, 0 <repeats 39 times>}, childs = {0 <repeats 39 times>, 10}}
reverse-continue
#> by_parent (i=1)
reverse-continue
#> has changed it
#> New value = {parents = {1, 0 <repeats 39 times>}, childs = {0 <repeats 40 times>}}
reverse-continue
#> New value = {parents = {0 <repeats 40 times>}, childs = {0 <repeats 40 times>}}
reverse-continue
#> by_parent (i=0)
