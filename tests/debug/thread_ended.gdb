# Behind the event with which a thread ends, another thread is looked at, and can be stepped back.
# program: holder.c
catch syscall exit
continue
#> (call to syscall exit)
delete
eval "seek %d", $_bis_event + 2
#> Thread 1 "holder" stopped
info threads
#> ! in exit
print $_thread
#> = 1
reverse-stepi
#> ! died
stepi
#> ! died
print $_thread
#> = 1
