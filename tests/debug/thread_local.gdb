# Variables of threads.
# program: threads.c
break finished
continue
print own
#> = 7
