# `catch signal` without a signal's name catches no move, which is told of as if by signal 0.
# program: signals.c
catch signal
tbreak main
continue
#> ! Catchpoint
#> main (
seek end
#> ! Catchpoint
#> Program stopped
back
#> ! Catchpoint
#> main (
checkpoint here
seek start
#> ! Catchpoint
#> Program stopped
restart 1
#> ! Catchpoint
#> main (
info breakpoints
#> ~ 1 +catchpoint +keep y
continue
#> Catchpoint 1 (signal SIGUSR1)
