# starti begins anew, as run does; what goes on behind it goes on at once. (gdb does not resume the program for `starti`, and
# for `run` it does.)
# program: basics.c
tbreak twice
continue
#> int first = add(value, value);
starti
#> Program stopped
x/i $pc
#> mov    %rsp,%rdi
tbreak twice
continue
#> int first = add(value, value);
starti
stepi
x/i $pc
#!> mov    %rsp,%rdi
reverse-stepi
x/i $pc
#> mov    %rsp,%rdi
run
x/i $pc
#> mov    %rsp,%rdi
starti
run
tbreak add
continue
#> add (a=0, b=0)
