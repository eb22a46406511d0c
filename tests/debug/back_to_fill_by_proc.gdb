# Back to a read whose hook touches the buffer and leaves the call to the kernel: it is where the buffer has changed, once.
# program: filled_by_proc.c
tbreak step if n==2
continue
#> step (n=2)
watch *(long*)buffer
reverse-continue
#> New value = 0
print passed
#> = 1
delete
tbreak step if n==4
continue
#> step (n=4)
watch *(long*)buffer
reverse-continue
#> Hardware watchpoint 4: *(long*)buffer
print passed
#> = 3
reverse-continue
#> Hardware watchpoint 4: *(long*)buffer
print passed
#> = 2
reverse-continue
#> New value = 0
print passed
#> = 1
print *(long*)buffer
#> = 0
continue
#> Old value = 0
print passed
#> = 1
delete
tbreak step if n==5
continue
#> step (n=5)
watch *(long*)(buffer+32)
reverse-continue
#> New value = 0
print passed
#> = 4
