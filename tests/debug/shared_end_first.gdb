# A session that begins at the end of a child that shares memory, and goes back through all of it.
# program: shared_page.c
# replay: -f {fork} -e
print *page
#> turn = 6, parents = 62, childs = 63
tbreak by_child if i == 0
reverse-continue
#> by_child (i=0)
print page->childs
#> = 0
stepi
reverse-stepi
reverse-stepi
#> void by_child
finish
#> main ()
print page->childs
#> = 11
seek end
print page->childs
#> = 63
back
print page->childs
#> = 11
