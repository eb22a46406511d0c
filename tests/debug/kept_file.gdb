# What hooks map of a file: watched and looked at, forwards and backwards, as if each call had stopped.
# program: kept_file.c
tbreak mapped if turn == 30
continue
#> mapped
up
print memory[4096]
#> = 127
print (char)memory[4097]
#> = 69 'E'
# The call has changed the byte, and the program did before.
watch memory[4096]
reverse-continue
#> Old value = 127
#> New value = 30
print turn
#> = 30
reverse-continue
#> Old value = 30
#> New value = 127
print turn
#> = 30
continue
#> New value = 30
continue
#> Old value = 30
#> New value = 127
print turn
#> = 30
delete
tbreak mapped
continue
#> mapped
catch syscall mmap
continue
#> (call to syscall mmap)
print turn
#> = 31
print memory[4096]
#> = 31
continue
#> (returned from syscall mmap)
print memory[4096]
#> = 127
reverse-continue
#> (call to syscall mmap)
print memory[4096]
#> = 31
delete
# By the pages that are watched, which the program maps anew.
watch *(char (*)[6000]) (memory + 4096)
set print elements 4
continue
#> Hardware watchpoint
print turn
#> = 31
reverse-continue
#> Hardware watchpoint
print turn
#> = 31
delete
tbreak mapped if turn == 50
continue
#> mapped
stepi
reverse-stepi
delete
continue
#> exited with status 0
