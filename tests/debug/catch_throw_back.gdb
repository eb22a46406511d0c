# gdb is still there when a catchpoint of exceptions has gone back to before its library was loaded, and catches again.
# program: exceptions.cc
break main
continue
catch throw
continue
#> Catchpoint 2 (exception thrown)
reverse-continue
#> Breakpoint 1
reverse-continue
#> No more
continue
#> Breakpoint 1
continue
#> Catchpoint 2 (exception thrown)
bt 2
#> __cxa_throw
seek start
seek end
reverse-continue
#> Catchpoint 2 (exception thrown)
