# dprintf, by gdb and by the server.
# program: basics.c
dprintf twice,"value is %d\n", value
break basics.c:24
continue
#> value is 0
#> value is 1
#> value is 4
#> Breakpoint 2, main ()
