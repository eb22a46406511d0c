# A breakpoint for one thread, and next with other threads running.
# program: threads.c
tbreak work
continue
#> work (argument=
next
#> own = number;
next
#> for (int i = 0; i < 3; i++)
next
#> pthread_mutex_lock
next
#> counter += number;
reverse-next
#> pthread_mutex_lock
reverse-next
#> for (int i
