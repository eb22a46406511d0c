# A recording of a crash, from its end.
# program: crash.c
# replay: -e
continue
#> SIGSEGV killed it
backtrace
#> sum (node=0x0)
#> main ()
info locals
#> i = 2
#> sum = 3
watch -location node
reverse-continue
#> ! SIGSEGV
#> Old value = (struct node *) 0x0
#> New value = (struct node *)
#> <second>
delete
continue
#> Program received signal SIGSEGV
print $_siginfo.si_signo
#> = 11
