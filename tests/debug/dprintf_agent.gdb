# dprintf whose text the server prints, without a stop.
# program: basics.c
set dprintf-style agent
dprintf twice,"value is %d of %d\n", value, total
break basics.c:24
continue
#> value is 0 of 0
#> value is 1 of 1
#> value is 4 of 7
#> Breakpoint 2, main ()
