# Steps back into a loop of thousands of rounds that nothing counts: in text that may be written, nothing counts by itself.
# program: uncounted.c
break behind
continue
#> behind (n=3125000)
delete
reverse-finish
#> behind(sum);
# gdb 13 stops at the begin of its line first; 16 and 18 go to the line before.
if $_gdb_major < 16
reverse-next
else
frame
end
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
