# Backwards by instructions: the same places as forwards.
# program: basics.c
# modes: hooks no-hooks software
tbreak add
continue
set $a = $pc
stepi
set $b = $pc
stepi
set $c = $pc
stepi
reverse-stepi
print $pc == $c
#> = 1
reverse-stepi
print $pc == $b
#> = 1
reverse-stepi
print $pc == $a
#> = 1
reverse-stepi 4
stepi 4
print $pc == $a
#> = 1
backtrace
#> add (a=0, b=0)
#> twice (value=0)
