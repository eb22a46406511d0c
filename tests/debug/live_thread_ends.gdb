# The end of a thread is not the end of the program, though nothing has come behind it yet.
# program: thread_after_thread.c
# modes: live
# status: 7
catch syscall write
continue
#> call to syscall write
continue
#> returned from syscall write
continue
#> call to syscall write
continue
continue
#> call to syscall write
continue
#> returned from syscall write
delete
continue
#> bis: process
#> ends here: it exited with status 7
