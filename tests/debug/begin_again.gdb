# At the first instruction going back stays there, and going on leads away from it.
# program: basics.c
print $pc
#> _start
reverse-continue
#> No more reverse-execution history
reverse-stepi
#> No more reverse-execution history
reverse-step
#> No more reverse-execution history
stepi
stepi
reverse-stepi
reverse-stepi
print $pc
#> _start
reverse-stepi
#> No more reverse-execution history
tbreak main
continue
#> main ()
