# Steps back into a loop of thousands of rounds that nothing counts: in text that may be written, nothing counts by itself.
# program: uncounted.c
break behind
continue
#> behind (n=3125000)
delete
reverse-finish
#> behind(sum);
reverse-next
#> behind(sum);
reverse-next
#> for (long i
reverse-next
#> sum += round_of(i);
print i
#> = 2499
reverse-stepi 100
print i >= 2490 && i < 2499
#> = 1
stepi 100
print i
#> = 2499
