# A client may ask to be told of threads that begin (gdb does when it needs to; here it is made to).
# program: names.c
tbreak named
continue
maint packet QThreadEvents:1
#> OK
# gdb 16 would end it by itself.
set remote thread-events-packet off
set debug remote 1
tbreak named
continue
#> create:
set debug remote 0
info threads
#> first worker
set debug remote 1
tbreak named
continue
#> create:
set debug remote 0
