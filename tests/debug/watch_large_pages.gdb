# Bytes on two pages of memory that the program makes, fills, and protects; the program goes on to see its own protections.
# program: large.c
break begin
tbreak large.c:50
continue
continue
#> memset
watch *(char (*)[300]) (pages + 4000)
set print elements 4
continue
#> Hardware watchpoint 3
print pages[4000]
#> 'a'
reverse-continue
#> Hardware watchpoint 3
print pages[4000]
#> '\000'
delete 3
tbreak large.c:54
continue
#> pages[0] = 'b'
watch *(char (*)[300]) (pages + 4000)
continue
#> Hardware watchpoint 5
print pages[0]
#> 'b'
print pages[4100]
#> 'c'
continue
#> 1225 by a call 1
#> exited with status 0
reverse-continue
#> Hardware watchpoint 5
print pages[4100]
#> 'a'
