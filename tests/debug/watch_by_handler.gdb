# A signal's handler changes what is watched.
# program: signals.c
handle SIGUSR1 nostop noprint pass
tbreak main
continue
watch handled
continue
#> Hardware watchpoint 2: handled
#> Old value = 0
#> New value = 10
#> on_user (number=10)
backtrace
#> on_user
#> <signal handler called>
#> main ()
continue
#> Old value = 10
#> New value = 100
reverse-continue
#> Old value = 100
#> New value = 10
reverse-continue
#> Old value = 10
#> New value = 0
#> on_user
