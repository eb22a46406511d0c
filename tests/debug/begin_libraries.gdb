# Back at the begin, where no library is listed yet, the dynamic linker has its symbols, as it has when a session begins: gdb 13 does not
# find it again by itself, once it has had to forget it.
# program: calls.c
tbreak main
continue
#> main (
reverse-continue
#> No more reverse-execution history
#> ~ in .* from .*ld-linux
bt 1
#> ~ #0 .* from .*ld-linux
info sharedlibrary
#> ~ Yes.*ld-linux
seek end
seek start
#> ~ in .* from .*ld-linux
info sharedlibrary
#> ~ Yes.*ld-linux
