# seek tells gdb of the libraries that are mapped there: it asks for them only where the program stops as it loads one. And `run` with what
# is no place leaves the program where it is.
# program: calls.c
seek end
bt
#> _exit
info sharedlibrary
#> ~ Yes.*libc\.so
break puts
#> Breakpoint 1 at
seek start
info sharedlibrary
#> ~ Yes.*ld-linux
#> ! libc
bt
#> ~ #0 .* from .*ld-linux
run 999999
#> bis: this process is recorded from event
info threads
#> * 1
run nowhere
#> is no place
print $pc == 0
#> = 0
set args
seek end
bt
#> _exit
