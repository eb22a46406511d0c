# Programs and libraries out of the trace: gdb reads them through the connection, and has their symbols.
# program: large.c
# replay: --serve-files
tbreak begin
continue
#> begin () at
info sharedlibrary
#> ~ Yes.*target:/.*libc
show sysroot
#> "target:"
info symbol read
#> read in section .text of target:/
