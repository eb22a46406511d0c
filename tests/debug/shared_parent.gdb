# A parent shares a page with its child: what the child writes is seen, forwards and backwards, and told whose it is.
# program: shared_page.c
break by_parent
continue
#> by_parent (i=0)
watch page->childs
continue
#> by_parent (i=1)
continue
#> has changed it, on its way to event
#> Old value = 0
#> New value = 11
continue
#> by_parent (i=2)
print *page
#> turn = 3, parents = 31, childs = 11
continue
#> Old value = 11
#> New value = 32
reverse-continue
#> has changed it, on its way to event
#> Old value = 32
#> New value = 11
print *page
#> turn = 3, parents = 31, childs = 11
reverse-continue
#> by_parent (i=2)
reverse-continue
#> Old value = 11
#> New value = 0
reverse-continue
#> by_parent (i=1)
reverse-continue
#> by_parent (i=0)
delete
reverse-continue
#> No more reverse-execution history
continue
#> parents 62 childs 63
#> exited with status 0
