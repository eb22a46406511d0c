# Steps of one thread, forwards and backwards, while others run in between.
# program: threads.c
break threads.c:16 if number == 2
continue
#> counter += number;
print counter
next
#> pthread_mutex_unlock
next
#> for (int i
next
next
#> counter += number;
print i
#> = 1
reverse-continue
#> counter += number;
print i
#> = 0
print counter == $1
#> = 1
