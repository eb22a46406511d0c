# A program that runs, and crashes: gdb stands at the crash, and goes back from there to its cause.
# program: crash.c
# modes: live
# status: 139
continue
#> SIGSEGV
backtrace
#> main
reverse-step
continue
#> SIGSEGV
continue
