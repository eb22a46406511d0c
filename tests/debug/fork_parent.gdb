# A parent is debugged; its child has its own replica, and its own memory.
# program: forks.c
tbreak in_parent
continue
#> in_parent ()
print shared_name
#> = 1
next
next
print shared_name
#> = 3
reverse-next
print shared_name
#> = 1
watch shared_name
reverse-continue
#> No more
