# The recording cannot be changed; whoever tries is told so, and nothing has changed.
# program: data.c
tbreak scope
continue
set var global = 5
#> Cannot access memory
#> The recording cannot be changed
#> `divert`
print global = 6
#> The recording cannot be changed
set $rax = 3
#> The recording cannot be changed
jump main
#> The recording cannot be changed
print look()
#> = 8
set var global = 5
#> The recording cannot be changed
print $_siginfo.si_signo
#> = 5
set var global = 5
#> The recording cannot be changed
print global
#> = 1
next
#> local += 1;
