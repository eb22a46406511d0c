# Memory that hooks map, protect and unmap: watched and looked at, forwards and backwards, as if each call had stopped.
# program: plain_memory.c
tbreak filled
continue
#> filled
catch syscall munmap
continue
#> (call to syscall munmap)
print turn
#> = 0
continue
#> (returned from syscall munmap)
continue
#> (call to syscall munmap)
print turn
#> = 1
reverse-continue
#> (returned from syscall munmap)
reverse-continue
#> (call to syscall munmap)
print turn
#> = 0
delete
tbreak filled if turn == 30
continue
#> filled
up
print memory[0]
#> = 30
# So many bytes are watched by their pages, which the program unmaps, and has again.
watch *(char (*)[6000]) memory
set print elements 4
continue
#> Hardware watchpoint
print turn
#> = 30
reverse-continue
#> Hardware watchpoint
print turn
#> = 30
delete
# The program tests this condition by itself after some times, in pages that must not lie where its heap grows meanwhile.
tbreak plain_memory.c:33 if turn == 500
continue
#> main
print turn
#> = 500
tbreak plain_memory.c:33 if turn == 300
reverse-continue
#> main
print turn
#> = 300
delete
tbreak protected if turn == 340
continue
#> protected
up
print (unsigned char)memory[0]
#> = 84
reverse-finish
stepi
reverse-stepi
call (int)getpid() == pid
#> = 1
print (long)sbrk(0) == (long)end
#> = 1
delete
continue
#> exited with status 0
