# The same table, from the child: from its end backwards, and forwards again. (Where its parent has written first, before the child begins or
# later, is another place in each recording.)
# program: shared_large.c
# replay: -f {fork} -e
watch *table
reverse-continue
#> New value = {parents = {1, 2, 0 <repeats 38 times>}, childs = {0 <repeats 39 times>, 10}}
#> by_child (i=1)
reverse-continue
#> has changed it
#> New value = {parents = {1, 0 <repeats 39 times>}, childs = {0 <repeats 39 times>, 10}}
reverse-continue
#> New value = {parents = {1, 0 <repeats 39 times>}, childs = {0 <repeats 40 times>}}
#> by_child (i=0)
continue
#> New value = {parents = {1, 0 <repeats 39 times>}, childs = {0 <repeats 39 times>, 10}}
#> by_child (i=0)
continue
#> has changed it
#> New value = {parents = {1, 2, 0 <repeats 38 times>}, childs = {0 <repeats 39 times>, 10}}
continue
#> by_child (i=1)
