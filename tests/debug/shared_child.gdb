# A child shares a page with its parent: its own writes stop it where they are made, in both directions.
# program: shared_page.c
# replay: -f {fork}
break by_child if i == 2
continue
#> by_child (i=2)
watch page->childs
continue
#> ! has changed it
#> Old value = 32
#> New value = 63
backtrace
#> by_child (i=2)
#> main ()
reverse-continue
#> Old value = 63
#> New value = 32
print *page
#> turn = 5, parents = 62, childs = 32
disable 1
reverse-continue
#> ! has changed it
#> Old value = 32
#> New value = 11
print i
#> = 1
watch page->parents
continue
#> Old value = 11
#> New value = 32
continue
#> has changed it
#> Old value = 31
#> New value = 62
delete
reverse-continue
#> No more reverse-execution history
print *page
#> turn = 0, parents = 0, childs = 0
continue
#> exited with status 0
