# Functions are called in the thread that is selected; nobody else runs meanwhile.
# program: threads.c
break threads.c:20 if number == 2
continue
#> work
print (int) getpid() == (int) gettid()
#> = 0
thread 1
print (int) getpid() == (int) gettid()
#> = 1
print *(int *)__errno_location()
print own
#> = 7
thread 2
print own
#> = 2
info threads
#> Thread
print counter
delete
watch counter
reverse-continue
#> Hardware watchpoint
