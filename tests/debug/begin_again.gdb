# At the first instruction going back stays there, and going on leads away from it.
# program: basics.c
x/i $pc
#> mov    %rsp,%rdi
reverse-continue
#> No more reverse-execution history
reverse-stepi
#> No more reverse-execution history
stepi
stepi
reverse-stepi
reverse-stepi
x/i $pc
#> mov    %rsp,%rdi
reverse-stepi
#> No more reverse-execution history
tbreak main
continue
#> main ()
