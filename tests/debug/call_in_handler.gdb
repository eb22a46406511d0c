# Calls at a signal, and from within its handler.
# program: callee.c
continue
#> Program received signal SIGUSR1
print $_siginfo.si_signo
#> = 10
print $_siginfo._sifields._kill.si_pid == getpid()
#> = 1
print add(4, 4)
#> = 8
print $_siginfo.si_signo
#> = 10
tbreak on_user
continue
#> on_user (number=10)
print $_siginfo.si_signo
#> = 5
print joined("in ", "handler")
#> "in handler"
print change_word()
#> = 7
print word
#> "word"
finish
#> <signal handler called>
continue
#> exited with status 0
